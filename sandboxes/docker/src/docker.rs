//! A back end that uses a Docker engine.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};

use async_trait::async_trait;
use bollard::models::SystemInfoCgroupVersionEnum;
use proctor_embedded_agent::{AGENT_BYTES, agent_digest};
use proctor_host::{RuntimeLock, dead_runtimes};
use proctor_sandbox_api::{
    Backend, Base, CacheEntry, ImageLocation, LayerSpec, Machine, PreparedEnvironment, Sandbox,
    SandboxRequest, wire::Defense,
};
use proctor_types::{Fault, FaultCause, FaultLayer, ImageSettings};

use crate::{
    base, cache_entries, container, create,
    engine::{Engine, WhiteoutStore},
    fault, layer, owner, sandbox,
};

/// Timeout for loading, importing, committing or pulling an image. The client's default timeout of
/// two minutes is too short for large images.
const SLOW_TIMEOUT: Duration = Duration::from_secs(3600);

/// Timeout for checking whether the engine responds.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// A Docker engine, local or remote, in which each sandbox is a container. Cheap to share.
pub struct Docker {
    pub(crate) engine: Arc<Engine>,
    folder: PathBuf,
    /// For each environment, a lock that allows one build at a time.
    build_locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Docker {
    /// Like [`Docker::connect_in`], but keeps this runtime's lock file in a folder in the system's
    /// temporary directory.
    ///
    /// # Errors
    /// See [`Docker::connect_in`].
    pub async fn connect() -> Result<Self, Fault> {
        let uid = rustix::process::geteuid().as_raw();
        let folder = std::env::temp_dir().join(format!("proctor-docker-{uid}"));
        Self::connect_in(&folder).await
    }

    /// Connects to the engine in `DOCKER_HOST`, or to the local engine. Creates this runtime's lock
    /// file in `folder`, from which later runtimes can tell whether this one is alive. Creates
    /// `folder` if it is missing.
    ///
    /// # Errors
    /// Returns a sandbox fault with a hint if no engine responds, or if the engine's architecture
    /// differs from that of the embedded agent.
    pub async fn connect_in(folder: &Path) -> Result<Self, Fault> {
        let host = std::env::var("DOCKER_HOST").ok();
        let absent = |error: bollard::errors::Error| {
            let at = host.as_deref().unwrap_or("the local socket");
            fault::sandbox_fault(&format!("no Docker engine responds at {at}"), &error).hint(
                "start the engine (`systemctl start docker` or `dockerd`), set DOCKER_HOST, or use \
                 sandbox.kind = \"native\"",
            )
        };
        let client = bollard::Docker::connect_with_defaults().map_err(absent)?;
        let client = client.negotiate_version().await.map_err(absent)?;
        let info = client.info().await.map_err(absent)?;
        let theirs = info.architecture.unwrap_or_default();
        if theirs != std::env::consts::ARCH {
            let what = format!(
                "the engine's architecture is {theirs}, but the sandbox agent of this build is for {}",
                std::env::consts::ARCH
            );
            return Err(Fault::new(FaultLayer::Sandbox, what)
                .hint("build Proctor for the engine's architecture, or set PROCTOR_AGENT"));
        }
        if AGENT_BYTES == 0 {
            return Err(Fault::new(FaultLayer::Sandbox, "this build has no sandbox agent"));
        }
        let asked = [
            ("memory", info.memory_limit),
            ("swap", info.swap_limit),
            ("processes", info.pids_limit),
            ("cpus", info.cpu_cfs_quota),
        ];
        let not_enforced = asked
            .into_iter()
            .filter(|(_, can)| *can == Some(false))
            .map(|(limit, _)| format!("{limit}: the engine's kernel has no cgroup for it"))
            .collect();
        let slow = client.clone().with_timeout(SLOW_TIMEOUT);
        let local = host.is_none_or(|host| host.starts_with("unix://"));
        let quota = AtomicBool::new(true);
        let unified = info.cgroup_version == Some(SystemInfoCgroupVersionEnum::_2);
        let options = info.security_options.unwrap_or_default();
        let selinux = options.iter().any(|option| option.contains("selinux"));
        let counted = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
        let mut machine = Machine {
            cpus: counted(info.ncpu).map_or(1.0, |cpus| cpus as f64),
            memory_mb: counted(info.mem_total).map_or(u64::from(u32::MAX), |bytes| bytes >> 20),
        };
        if local {
            machine = machine.min(Machine::detect());
        }
        let lock = RuntimeLock::acquire(&runtime_folder(folder)).map_err(|error| {
            let what = format!("cannot use the cache folder {}: {error}", folder.display());
            Fault::new(FaultLayer::Sandbox, what).hint("choose a writable folder")
        })?;
        let engine = Engine {
            client,
            slow_client: slow,
            is_local: local,
            not_enforced,
            has_quota: quota,
            has_cgroup_v2: unified,
            version: info.server_version,
            has_selinux: selinux,
            machine,
            disabled_defenses: Vec::new(),
            whiteout_store: WhiteoutStore::Temporary(OnceLock::new()),
            lock,
            containers: AtomicUsize::new(0),
            liveness_socket: owner::LivenessSocket::announce(),
        };
        Ok(Self {
            engine: Arc::new(engine),
            folder: folder.to_owned(),
            build_locks: Mutex::default(),
        })
    }

    /// Like [`Docker::connect`], but all sandboxes have the given defenses disabled and list them
    /// as not enforced. Tests use this to show that an attack succeeds without its defense.
    ///
    /// # Errors
    /// See [`Docker::connect`].
    #[doc(hidden)]
    pub async fn connect_without_defenses(defenses: &[Defense]) -> Result<Self, Fault> {
        let mut docker = Self::connect().await?;
        if let Some(engine) = Arc::get_mut(&mut docker.engine) {
            engine.disabled_defenses = defenses.to_vec();
        }
        Ok(docker)
    }

    /// Sets a directory on this machine for files that sandboxes need and that can be cached.
    /// Without this directory, they are recreated in each process.
    #[must_use]
    pub fn with_cache_folder(mut self, folder: PathBuf) -> Self {
        if let Some(engine) = Arc::get_mut(&mut self.engine) {
            engine.whiteout_store = WhiteoutStore::Persistent(folder);
        }
        self
    }

    fn build_lock(&self, digest: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut building = self.build_locks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(building.entry(digest.to_owned()).or_default())
    }
}

#[async_trait]
impl Backend for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn agent_digest(&self) -> String {
        agent_digest().to_owned()
    }

    fn engine_version(&self) -> Option<String> {
        self.engine.version.clone()
    }

    async fn image_location(&self, image: &str) -> Result<ImageLocation, Fault> {
        base::image_location(&self.engine, image).await
    }

    fn machine(&self) -> Machine {
        self.engine.machine
    }

    async fn image_settings(&self, base: &Base) -> Result<ImageSettings, Fault> {
        let lock = match base {
            // If two tasks have the same Dockerfile, build it only once.
            Base::Dockerfile(folder) => Some(self.build_lock(&folder.display().to_string())),
            _ => None,
        };
        let _only = match &lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        base::image_settings(&self.engine, base).await
    }

    async fn prepare(&self, spec: &LayerSpec) -> Result<PreparedEnvironment, Fault> {
        let plan = layer::resolve_layer(&self.engine, spec).await?;
        let lock = self.build_lock(&plan.digest);
        let _only = lock.lock().await;
        layer::prepare(&self.engine, spec, &plan).await
    }

    async fn open(&self, request: &SandboxRequest) -> Result<Box<dyn Sandbox>, Fault> {
        let opened = create::open_sandbox(&self.engine, request).await?;
        Ok(Box::new(sandbox::DockerSandbox::new(opened)))
    }

    async fn check_availability(&self) -> Result<(), Fault> {
        let gone = |why: &str| {
            let what = format!("the Docker engine is not responding: {why}");
            Fault::new(FaultLayer::Sandbox, what)
                .cause(FaultCause::BackEndGone)
                .hint("start the engine, then `proctor resume` the run")
        };
        match tokio::time::timeout(PING_TIMEOUT, self.engine.client.ping()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(gone(&fault::engine_message(&error))),
            Err(_) => Err(gone(&format!("no response for {} s", PING_TIMEOUT.as_secs()))),
        }
    }

    async fn cache_entries(&self) -> Result<Vec<CacheEntry>, Fault> {
        cache_entries::list(&self.engine).await
    }

    async fn discard(&self, entry: &CacheEntry) -> Result<bool, Fault> {
        cache_entries::remove(&self.engine, &entry.backend_id).await
    }

    /// Checks for live processes first, because a run may have no container at the moment. Only
    /// processes on this machine are visible; runs on other machines are detected by their
    /// containers.
    async fn other_cache_user(&self) -> Result<Option<String>, Fault> {
        if let Some(pid) = self.engine.liveness_socket.other_processes().first() {
            return Ok(Some(format!("process {pid}")));
        }
        let containers = self.engine.list_containers().await?;
        let live = containers.into_iter().find(|container| {
            !owner::is_orphan(container.labels.as_ref().unwrap_or(&HashMap::new()))
        });
        Ok(live.map(|container| {
            let name = container.names.and_then(|names| names.into_iter().next());
            let name = name.or(container.id).unwrap_or_default();
            format!("container {}", name.trim_start_matches('/'))
        }))
    }

    async fn sweep(&self) -> Result<Vec<String>, Fault> {
        let (mut removed, mut left) = (Vec::new(), HashSet::new());
        for container in self.engine.list_containers().await? {
            let Some(id) = container.id else { continue };
            let labels = container.labels.unwrap_or_default();
            if !owner::is_orphan(&labels) {
                left.extend(owner::runtime_name(&labels));
                continue;
            }
            let name = container.names.and_then(|names| names.into_iter().next());
            let name = name.as_deref().unwrap_or(&id).trim_start_matches('/').to_owned();
            match container::remove(&self.engine.client, &id).await {
                Ok(()) => removed.push(format!("container {name}")),
                // A container that cannot be removed is not this run's fault, and the next sweep
                // finds it again.
                Err(fault) => {
                    tracing::warn!(%fault, name, "cannot remove a dead run's container");
                    left.extend(owner::runtime_name(&labels));
                }
            }
        }
        // Remove the lock files of dead runtimes that left no containers. A lock file that cannot
        // be removed is harmless.
        for dead in dead_runtimes(&runtime_folder(&self.folder)).into_iter().flatten() {
            if !left.contains(&dead.name) {
                let _ = dead.remove_file();
            }
        }
        Ok(removed)
    }
}

fn runtime_folder(folder: &Path) -> PathBuf {
    folder.join("runtimes")
}
