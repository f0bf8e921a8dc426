//! The interface that every back end implements.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_types::{EnvironmentRecord, Fault, ImageSettings, SandboxCounts, SandboxSpec};

use crate::{
    CacheEntry, Enforcement, Machine, SandboxHandle,
    wire::{HiddenPaths, RawPath},
};

/// The resolved base of a sandbox. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The host's own `/usr`, `/bin`, `/lib*`, `/opt` and a minimal `/etc`, read-only.
    Host,
    /// A directory with a root file system.
    Folder(PathBuf),
    /// An OCI or `docker save` archive.
    Archive(PathBuf),
    /// An image that the Docker engine has or can pull.
    Image(String),
    /// A build context with a `Dockerfile`, built by the Docker engine.
    Dockerfile(PathBuf),
}

/// Where a back end can get an image from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageLocation {
    /// The back end already has the image.
    BackEnd,
    /// The image must be pulled from a registry.
    Registry,
}

/// Source code on the host that is copied into the sandbox before the setup commands run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTree {
    /// A directory on the host.
    pub folder: PathBuf,
    /// SHA-256 or another identifier of the content; part of the layer's cache key.
    pub digest: String,
    /// The destination path in the sandbox.
    pub destination: RawPath,
}

/// How to build an environment: a base, source code and setup commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// The base to build on.
    pub base: Base,
    /// Code to copy in before the setup commands run; `None` if the base already contains it.
    pub source: Option<SourceTree>,
    /// Shell commands, run as the sandbox's root in `workdir` with network access.
    pub setup: Vec<String>,
    /// Absolute path in the sandbox; created if missing.
    pub workdir: RawPath,
    /// Environment variables of the setup commands.
    pub env: Vec<(String, String)>,
    /// The time limit for all setup commands together. The build fails if they exceed it.
    pub time_limit: Duration,
}

/// A built environment that sandboxes start from. Back ends cache it on disk under `digest`. Cheap
/// to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedEnvironment {
    /// The cache key: identifies the base, the source code and the setup commands.
    pub digest: String,
    /// Identifies the base's content: an image id or a SHA-256.
    pub base: String,
    /// The image as `repository@sha256:...`, if the base is an image from a registry.
    pub image: Option<String>,
    /// The back end's own identifier, such as a layer directory or an image id.
    pub backend_id: String,
    /// Whether the setup commands ran for this call. `false` if the environment comes from the cache.
    pub was_built: bool,
    /// With a host base: the host paths that are hidden in its sandboxes. Back ends leave this
    /// empty; the caller that opens a sandbox sets it.
    pub hidden_paths: HiddenPaths,
}

impl PreparedEnvironment {
    /// Returns the environment's entry for the run record.
    pub fn to_record(&self) -> EnvironmentRecord {
        EnvironmentRecord {
            digest: self.digest.clone(),
            base: self.base.clone(),
            image: self.image.clone(),
            user: None,
            cpu_variables: BTreeMap::new(),
        }
    }
}

/// A host directory that is visible in the sandbox, with everything below it. No user in the
/// sandbox, not even root, can write to it, and snapshots don't include it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// A directory on the host.
    pub folder: PathBuf,
    /// The mount point, as an absolute path in the sandbox. It is created if missing. Otherwise,
    /// the mount hides its existing content.
    pub mount_point: RawPath,
}

/// A request to open a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// The environment that the sandbox starts from.
    pub environment: PreparedEnvironment,
    /// Resource limits.
    pub limits: SandboxSpec,
    /// Host directories that the trial needs, such as an agent's programs. Sandboxes for grading
    /// have none.
    pub mounts: Vec<Mount>,
    /// The trial or another purpose that the sandbox is for. Used in labels and messages.
    pub purpose: String,
}

/// Builds environments and opens sandboxes. The trait is object-safe, and all trials share one back
/// end.
///
/// Contract: a sandbox has no network, only the capabilities that it needs for its own files and
/// processes, and no access to the host beyond its base and mounts. [`Enforcement`] lists what the
/// back end cannot enforce. A sandbox ends when its channel closes, even if the runtime crashes.
/// [`Backend::sweep`] removes what a killed runtime left behind.
///
/// Five methods are required. The back end in this example wraps another one and counts the
/// sandboxes that it opens:
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use async_trait::async_trait;
/// use proctor_sandbox_api::{Backend, LayerSpec, PreparedEnvironment, Sandbox, SandboxRequest};
/// use proctor_types::{Fault, FaultLayer};
///
/// struct Counted<B>(B, AtomicUsize);
///
/// #[async_trait]
/// impl<B: Backend> Backend for Counted<B> {
///     fn name(&self) -> &'static str {
///         self.0.name()
///     }
///     fn agent_digest(&self) -> String {
///         self.0.agent_digest()
///     }
///     async fn prepare(&self, spec: &LayerSpec) -> Result<PreparedEnvironment, Fault> {
///         self.0.prepare(spec).await
///     }
///     async fn open(&self, spec: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.open(spec).await
///     }
///     async fn sweep(&self) -> Result<Vec<String>, Fault> {
///         self.0.sweep().await
///     }
/// }
///
/// // A back end that cannot fulfill a request returns a fault of a layer and never panics.
/// struct Nowhere;
///
/// #[async_trait]
/// impl Backend for Nowhere {
///     fn name(&self) -> &'static str {
///         "nowhere"
///     }
///     fn agent_digest(&self) -> String {
///         "none".to_owned()
///     }
///     async fn prepare(&self, _: &LayerSpec) -> Result<PreparedEnvironment, Fault> {
///         Err(Fault::new(FaultLayer::Environment, "nowhere has no environments"))
///     }
///     async fn open(&self, spec: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault> {
///         Err(Fault::new(FaultLayer::Sandbox, format!("no sandbox for {}", spec.purpose)))
///     }
///     async fn sweep(&self) -> Result<Vec<String>, Fault> {
///         Ok(Vec::new())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let backend = Counted(Nowhere, AtomicUsize::new(0));
/// let request = SandboxRequest {
///     environment: PreparedEnvironment {
///         digest: "0".into(), base: "0".into(), image: None,
///         backend_id: String::new(), was_built: false, hidden_paths: Default::default(),
///     },
///     limits: Default::default(),
///     purpose: "an example".into(),
///     mounts: Vec::new(),
/// };
/// let fault = backend.open(&request).await.err().unwrap();
/// assert_eq!(fault.to_string(), "sandbox fault: no sandbox for an example");
/// assert_eq!(backend.1.load(Ordering::Relaxed), 1);
/// # }
/// ```
#[async_trait]
pub trait Backend: Send + Sync {
    /// Returns the back end's name: `native` or `docker`.
    fn name(&self) -> &'static str;

    /// Returns the content hash of the sandbox agent. Results that were cached with another agent
    /// are invalid.
    fn agent_digest(&self) -> String;

    /// Returns the resources that are available to all sandboxes together.
    fn machine(&self) -> Machine {
        Machine::detect()
    }

    /// Returns the container engine's version, for the run record.
    fn engine_version(&self) -> Option<String> {
        None
    }

    /// Returns where an image is available, without downloading anything.
    ///
    /// # Errors
    /// Fails if the back end does not have the image and, as far as it can tell without pulling, no
    /// registry has it either.
    async fn image_location(&self, _image: &str) -> Result<ImageLocation, Fault> {
        Ok(ImageLocation::BackEnd)
    }

    /// Returns the image's container settings. Pulls or builds the image if it is missing. For a
    /// base that is not an image, returns default settings.
    ///
    /// # Errors
    /// Fails if the image cannot be pulled, built or read.
    async fn image_settings(&self, _base: &Base) -> Result<ImageSettings, Fault> {
        Ok(ImageSettings::default())
    }

    /// Builds the environment, or returns it from the cache. If two callers request the same spec
    /// concurrently, it is built once.
    async fn prepare(&self, spec: &LayerSpec) -> Result<PreparedEnvironment, Fault>;

    /// Opens one sandbox and waits until its agent responds.
    ///
    /// # Errors
    /// Fails if the sandbox does not start: with an environment fault if the environment is gone,
    /// otherwise with a sandbox fault.
    async fn open(&self, request: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault>;

    /// Lists the cache entries that the back end can recreate, in an order in which they can be
    /// removed.
    async fn cache_entries(&self) -> Result<Vec<CacheEntry>, Fault> {
        Ok(Vec::new())
    }

    /// Removes a cache entry. Returns `false` if the entry is still in use.
    async fn discard(&self, _entry: &CacheEntry) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Describes another live process that uses the cache, if there is one.
    async fn other_cache_user(&self) -> Result<Option<String>, Fault> {
        Ok(None)
    }

    /// Checks whether the back end can open sandboxes at all. Called after a sandbox failed to open
    /// or died.
    ///
    /// # Errors
    /// Fails if the back end is unavailable: with `Cause::BackEndGone` if it may recover, otherwise
    /// with another cause.
    async fn check_availability(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Removes what dead runtimes left behind and returns the names of the removed resources. Never
    /// touches a live runtime's resources.
    async fn sweep(&self) -> Result<Vec<String>, Fault>;
}

/// An open sandbox. An implementation must also end the sandbox if it is dropped without
/// [`Sandbox::close`].
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Returns the host's end of the channel to the agent. Clones of the handle may outlive this
    /// value, but requests through them then fail.
    fn handle(&self) -> &Arc<SandboxHandle>;

    /// Returns which of the requested limits are not enforced.
    fn enforcement(&self) -> &Enforcement;

    /// Returns the current resource counters. Counters that the back end doesn't have are `None`.
    /// Call this method before [`Sandbox::close`]. It also works if the sandbox is dead.
    async fn counts(&self) -> SandboxCounts {
        self.handle().counts()
    }

    /// Kills everything in the sandbox and releases its resources. Idempotent.
    async fn close(&mut self) -> Result<(), Fault>;
}
