//! The interface of a back end.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_types::{EnvironmentRecord, Fault, ImageSettings, SandboxCounts, SandboxSpec};

use crate::{
    Enforcement, Kept, Machine, SandboxHandle,
    wire::{Absent, RawPath},
};

/// What a sandbox starts from, resolved: paths are absolute.
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

/// Where an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImagePlace {
    /// The back end has it.
    Here,
    /// It can be pulled.
    Registry,
}

/// Source code on the host that is copied into the sandbox before the set-up lines run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTree {
    /// A directory on the host.
    pub folder: PathBuf,
    /// SHA-256 or another identifier of its content, for the layer's key.
    pub digest: String,
    /// The destination.
    pub at: RawPath,
}

/// An environment that is built once: base + source + set-up lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// The layer's base.
    pub base: Base,
    /// Code that is copied in before the lines run. Absent: the base contains it.
    pub source: Option<SourceTree>,
    /// Shell lines, run as root of the sandbox, in `workdir`, with a network.
    pub setup: Vec<String>,
    /// Absolute path in the sandbox; created if missing.
    pub workdir: RawPath,
    /// Environment variables of the lines.
    pub env: Vec<(String, String)>,
    /// Time limit of all lines together. The build fails when it is reached.
    pub time_limit: Duration,
}

/// A built environment from which sandboxes are started. Cheap to clone; cached on disk by
/// `digest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Identifies base, source and lines.
    pub digest: String,
    /// Identifies the base's content: an image id, else a SHA-256.
    pub base: String,
    /// `repository@sha256:...`, if the base's image comes from a registry.
    pub image: Option<String>,
    /// The back end's own handle: a layer directory, an image id.
    pub handle: String,
    /// The set-up lines ran now; otherwise it comes from the cache.
    pub built: bool,
    /// On a host base: what its sandboxes lack compared with the host. A back end leaves this
    /// empty; the caller that opens a sandbox fills it.
    pub absent: Absent,
}

impl Prepared {
    /// Its entry in a record.
    pub fn record(&self) -> EnvironmentRecord {
        EnvironmentRecord {
            digest: self.digest.clone(),
            base: self.base.clone(),
            image: self.image.clone(),
            user: None,
            cpu_variables: BTreeMap::new(),
        }
    }
}

/// A directory of the host that a sandbox sees, too, with everything below it. It is read-only for
/// every user inside, including root, and not part of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// A directory on the host.
    pub folder: PathBuf,
    /// Absolute; created if the environment has nothing there, mounted over whatever is there.
    pub at: RawPath,
}

/// A sandbox to open.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// What it starts from.
    pub environment: Prepared,
    /// Its resources.
    pub limits: SandboxSpec,
    /// What the sandbox borrows for its trial, such as an agent's programs. A sandbox for grading
    /// has none.
    pub mounts: Vec<Mount>,
    /// For labels and messages: the trial, or the sandbox's purpose.
    pub purpose: String,
}

/// Builds environments and opens sandboxes. Object-safe, shared by all trials.
///
/// Contract: a sandbox has no network, no capability beyond what its own files need, and no view of
/// the host beyond its base. [`Enforcement`] lists what cannot be enforced. Whatever happens to the
/// runtime, a sandbox ends when its channel does, and [`Backend::sweep`] removes leftovers of a
/// killed runtime.
///
/// Four methods are required. This one wraps another back end and counts the sandboxes that it
/// opens:
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use async_trait::async_trait;
/// use proctor_sandbox_api::{Backend, LayerSpec, Prepared, Sandbox, SandboxRequest};
/// use proctor_types::{Fault, Layer};
///
/// struct Counted<B>(B, AtomicUsize);
///
/// #[async_trait]
/// impl<B: Backend> Backend for Counted<B> {
///     fn name(&self) -> &'static str {
///         self.0.name()
///     }
///     fn agent(&self) -> String {
///         self.0.agent()
///     }
///     async fn prepare(&self, spec: &LayerSpec) -> Result<Prepared, Fault> {
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
///     fn agent(&self) -> String {
///         "none".to_owned()
///     }
///     async fn prepare(&self, _: &LayerSpec) -> Result<Prepared, Fault> {
///         Err(Fault::new(Layer::Environment, "nowhere has no environments"))
///     }
///     async fn open(&self, spec: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault> {
///         Err(Fault::new(Layer::Sandbox, format!("no sandbox for {}", spec.purpose)))
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
///     environment: Prepared {
///         digest: "0".into(), base: "0".into(), image: None, handle: String::new(),
///         built: false, absent: Default::default(),
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
    /// `native` or `docker`.
    fn name(&self) -> &'static str;

    /// Identifies the agent that its sandboxes run, by content. Results obtained with another agent
    /// are not valid for this one.
    fn agent(&self) -> String;

    /// The resources for all of its sandboxes together.
    fn machine(&self) -> Machine {
        Machine::here()
    }

    /// Its version in a record: the engine's.
    fn version(&self) -> Option<String> {
        None
    }

    /// Where an image is, queried before anything needs it. Nothing is downloaded.
    ///
    /// # Errors
    /// It is neither present nor can it be pulled, as far as that is known without trying.
    async fn image_place(&self, _image: &str) -> Result<ImagePlace, Fault> {
        Ok(ImagePlace::Here)
    }

    /// The image's settings for its containers. Pulls or builds a missing image. A base that is not
    /// an image has none.
    ///
    /// # Errors
    /// The image cannot be pulled, built or read.
    async fn image_settings(&self, _base: &Base) -> Result<ImageSettings, Fault> {
        Ok(ImageSettings::default())
    }

    /// Builds the environment or finds it in the cache. Two concurrent callers with the same spec
    /// build once.
    async fn prepare(&self, spec: &LayerSpec) -> Result<Prepared, Fault>;

    /// Opens one sandbox and waits until its agent responds.
    ///
    /// # Errors
    /// The sandbox did not start: a sandbox fault, or an environment fault if its layer is gone.
    async fn open(&self, spec: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault>;

    /// What it caches and can recreate, in the order in which it can be removed.
    async fn kept(&self) -> Result<Vec<Kept>, Fault> {
        Ok(Vec::new())
    }

    /// Removes an entry of that list; `false` if it is still in use.
    async fn discard(&self, _kept: &Kept) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Who else uses its cache, if known: a live runtime, as a person knows it.
    async fn in_use(&self) -> Result<Option<String>, Fault> {
        Ok(None)
    }

    /// Whether it can open sandboxes at all. Called after one could not be opened, or died.
    ///
    /// # Errors
    /// It is unavailable: `Cause::BackEndGone` if it may recover, otherwise another cause.
    async fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Removes leftovers of earlier, dead runtimes and returns their names. Never touches those of
    /// a live runtime.
    async fn sweep(&self) -> Result<Vec<String>, Fault>;
}

/// An open sandbox. Dropping it without [`Sandbox::close`] must still end the sandbox.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// The channel to its agent. Clones may outlive this value; they are broken then.
    fn handle(&self) -> &Arc<SandboxHandle>;

    /// Which of the requested limits are not enforced.
    fn enforcement(&self) -> &Enforcement;

    /// Its counters so far; those that the back end does not have are absent. Call it before
    /// [`Sandbox::close`]; works for a dead sandbox, too.
    async fn counts(&self) -> SandboxCounts {
        self.handle().counts()
    }

    /// Kills everything in the sandbox and releases its resources. Idempotent.
    async fn close(&mut self) -> Result<(), Fault>;
}
