//! The contract of a back end.

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
    /// A root file system folder.
    Folder(PathBuf),
    /// An OCI or `docker save` archive.
    Archive(PathBuf),
    /// An image of the Docker engine, or one that it can pull.
    Image(String),
    /// A build context with a `Dockerfile`, which the Docker engine builds.
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

/// Source code on the host, to be placed in the sandbox before the set-up lines run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTree {
    /// A folder of the host.
    pub folder: PathBuf,
    /// SHA-256 or another name of its content, for the layer's key.
    pub digest: String,
    /// Where it is placed.
    pub at: RawPath,
}

/// An environment to be built once: base + source + lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// What the layer stands on.
    pub base: Base,
    /// Code to be placed before the lines run. Absent: the base holds it.
    pub source: Option<SourceTree>,
    /// Shell lines, run as root of the sandbox, in `workdir`, with network.
    pub setup: Vec<String>,
    /// Absolute, in the sandbox. It is made where it is missing.
    pub workdir: RawPath,
    /// Variables of the lines.
    pub env: Vec<(String, String)>,
    /// For all lines together. At the limit the build fails.
    pub time_limit: Duration,
}

/// A built environment, ready to start sandboxes from. Cheap to clone; cached on disk by `digest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Names base, source and lines.
    pub digest: String,
    /// Names the base's content: an image's id, else a SHA-256.
    pub base: String,
    /// `repository@sha256:...`, where a registry gave the base's image.
    pub image: Option<String>,
    /// The back end's own handle: a layer folder, an image id.
    pub handle: String,
    /// The set-up lines ran now, rather than out of the cache.
    pub built: bool,
    /// On a host base: what of the host its sandboxes do not have. A back end returns nothing here;
    /// the caller that opens a sandbox adds it.
    pub absent: Absent,
}

impl Prepared {
    /// What a record says of it.
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

/// A folder of the host that a sandbox sees too, with everything below it: read-only for everybody in there, root
/// included, and no part of any snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// A folder of the host.
    pub folder: PathBuf,
    /// Absolute; made where the environment has nothing there, covered where it has something.
    pub at: RawPath,
}

/// One sandbox to be opened.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// What it starts from.
    pub environment: Prepared,
    /// The resources that it gets.
    pub limits: SandboxSpec,
    /// What the sandbox is lent for its trial, such as the programs of an agent. A sandbox for grading has none.
    pub mounts: Vec<Mount>,
    /// For labels and messages: the trial, or what the sandbox is for.
    pub purpose: String,
}

/// Builds environments and opens sandboxes. Object-safe, shared by all trials.
///
/// Contract: a sandbox has no network, no capability beyond what its own files need, no view of the
/// host beyond its base; what cannot be enforced is said in [`Enforcement`]. Whatever happens to
/// the runtime, a sandbox ends when its channel does, and [`Backend::sweep`] removes what a killed
/// runtime left.
///
/// Four methods are needed. This one wraps another back end and counts the sandboxes that it opens:
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
/// // A back end that cannot do what is asked says so as a fault of a layer, never by a panic.
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

    /// Names the agent that its sandboxes run, by content. What was seen through another one, or done to a
    /// sandbox by it, is not what this one would see and do.
    fn agent(&self) -> String;

    /// What there is for all of its sandboxes together.
    fn machine(&self) -> Machine {
        Machine::here()
    }

    /// What a record says of it beside its name: the engine's version.
    fn version(&self) -> Option<String> {
        None
    }

    /// Where an image is, asked before anything needs it. Nothing is downloaded.
    ///
    /// # Errors
    /// It is neither here nor can it be pulled, as far as one can know without trying.
    async fn image_place(&self, _image: &str) -> Result<ImagePlace, Fault> {
        Ok(ImagePlace::Here)
    }

    /// What the image of a base says of its containers. Pulls or builds an image that is not here. A base that is no
    /// image says nothing.
    ///
    /// # Errors
    /// The image cannot be pulled, built or read.
    async fn image_settings(&self, _base: &Base) -> Result<ImageSettings, Fault> {
        Ok(ImageSettings::default())
    }

    /// Builds the environment, or finds it in the cache. Two callers with the same spec build once.
    async fn prepare(&self, spec: &LayerSpec) -> Result<Prepared, Fault>;

    /// Opens one sandbox and waits until its agent answers.
    ///
    /// # Errors
    /// The sandbox did not start: a fault of the layer `sandbox`, or of the environment where its layer
    /// is gone.
    async fn open(&self, spec: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault>;

    /// What it keeps and can make again, in the order in which it can be removed.
    async fn kept(&self) -> Result<Vec<Kept>, Fault> {
        Ok(Vec::new())
    }

    /// Removes something of that list; `false` where something still uses it.
    async fn discard(&self, _kept: &Kept) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Who else uses what it keeps, where it can tell: a live runtime, as a person knows it.
    async fn in_use(&self) -> Result<Option<String>, Fault> {
        Ok(None)
    }

    /// Whether it can open sandboxes at all: asked after one that could not be opened, or that died.
    ///
    /// # Errors
    /// It is gone: `Cause::BackEndGone` where it may come back by itself, another cause where not.
    async fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Removes what earlier, dead runtimes left; returns the names of what was removed. Never
    /// touches what belongs to a living one.
    async fn sweep(&self) -> Result<Vec<String>, Fault>;
}

/// One open sandbox. Dropping it without [`Sandbox::close`] must still end the sandbox.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// The channel to its agent. It may be cloned and outlive this value; it is broken then.
    fn handle(&self) -> &Arc<SandboxHandle>;

    /// Which of the limits that were asked for do not hold.
    fn enforcement(&self) -> &Enforcement;

    /// What was counted of it so far, as far as the back end can tell: what it cannot is absent. Before
    /// [`Sandbox::close`], also of a sandbox that is dead.
    async fn counts(&self) -> SandboxCounts {
        self.handle().counts()
    }

    /// Kills everything in the sandbox and returns its resources. Idempotent.
    async fn close(&mut self) -> Result<(), Fault>;
}
