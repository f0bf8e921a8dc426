//! A connected Docker engine.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bollard::{models::ContainerSummary, query_parameters::ListContainersOptionsBuilder};
use proctor_host::{
    RuntimeLock,
    absent::{self, HostOverlay},
};
use proctor_sandbox_api::{
    Machine,
    wire::{Defense, HiddenPaths},
};
use proctor_types::{Fault, FaultLayer};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::{fault, owner};

/// A connected engine, and the data that all of its sandboxes share.
pub(crate) struct Engine {
    pub client: bollard::Docker,
    /// A client for the same engine with longer timeouts.
    pub slow_client: bollard::Docker,
    /// Whether the engine has access to this machine's files.
    pub is_local: bool,
    /// Limits that the engine itself reports as unsupported.
    pub not_enforced: Vec<String>,
    /// Whether disk quotas work. Set to `false` if the engine rejects a quota because its storage
    /// driver doesn't support quotas.
    pub has_quota: AtomicBool,
    /// Whether the engine uses cgroup v2.
    pub has_cgroup_v2: bool,
    /// The version that the engine reports.
    pub version: Option<String>,
    /// Whether the engine labels containers with SELinux.
    pub has_selinux: bool,
    /// The resources of the engine's machine.
    pub machine: Machine,
    /// Defenses that a test has disabled.
    pub disabled_defenses: Vec<Defense>,
    /// Shows other processes on this machine that this process uses an engine.
    pub liveness_socket: owner::LivenessSocket,
    /// Where whiteouts are stored. By default, a directory that is removed when this process ends.
    pub whiteout_store: WhiteoutStore,
    /// This runtime's lock, held as long as the runtime may have containers.
    pub lock: RuntimeLock,
    /// Number of containers that were created and not yet removed.
    pub containers: AtomicUsize,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // If containers remain, keep the lock file. Without it, a later sweep could not prove that
        // the containers' owner is dead.
        if self.containers.load(Ordering::Acquire) == 0 {
            self.lock.remove_file();
        }
    }
}

/// Where to store whiteouts on this machine.
pub(crate) enum WhiteoutStore {
    Persistent(PathBuf),
    Temporary(OnceLock<TempDir>),
}

impl WhiteoutStore {
    fn folder(&self) -> io::Result<&Path> {
        match self {
            Self::Persistent(folder) => Ok(folder),
            Self::Temporary(cell) => {
                if let Some(made) = cell.get() {
                    return Ok(made.path());
                }
                let made = tempfile::Builder::new().prefix("proctor-absent-").tempdir()?;
                Ok(cell.get_or_init(|| made).path())
            }
        }
    }
}

impl Engine {
    /// Lists all containers that Proctor created, in any state.
    pub async fn list_containers(&self) -> Result<Vec<ContainerSummary>, Fault> {
        let filters = HashMap::from([("label", vec![format!("{}=1", owner::MARK_LABEL)])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let listed = self.client.list_containers(Some(options)).await;
        listed.map_err(|error| fault::sandbox_fault("cannot list containers", &error))
    }

    /// Prepares an overlay for each host directory in which entries must be hidden.
    pub async fn prepare_overlays(
        self: &Arc<Self>,
        hidden_paths: HiddenPaths,
    ) -> Result<Vec<HostOverlay>, Fault> {
        let engine = Arc::clone(self);
        let made = move || absent::prepare_overlays(engine.whiteout_store.folder()?, &hidden_paths);
        let made = spawn_blocking(made).await.map_err(io::Error::other).and_then(|made| made);
        made.map_err(|error| {
            Fault::new(
                FaultLayer::Sandbox,
                format!("cannot hide host paths from the sandbox: {error}"),
            )
        })
    }

    pub fn has_quota(&self) -> bool {
        self.has_quota.load(Ordering::Relaxed)
    }
}
