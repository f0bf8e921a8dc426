//! An open native sandbox.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::{Enforcement, FailureDiagnostics, Sandbox, SandboxHandle};
use proctor_types::{Fault, FaultLayer, SandboxCounts};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    archive::ArchivePin,
    cgroup::{Group, MemoryEvents},
    cleanup,
    launch::Helper,
};

/// How long a sandbox may take to shut down before it is killed.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(2);

pub(crate) struct NativeSandbox {
    handle: Arc<SandboxHandle>,
    enforcement: Enforcement,
    host_resources: Option<HostResources>,
    /// How long the sandbox waited for its turn to be created.
    wait_time: Duration,
}

/// What a sandbox uses on the host: its helper, its cgroups and its archive.
pub(crate) struct HostResources {
    pub(crate) helper: Helper,
    pub(crate) group: Group,
    /// Prevents the removal of the archive that contains the sandbox's root.
    pub(crate) archive_pin: Option<Arc<ArchivePin>>,
}

/// What the kernel reports about a sandbox that has ended.
pub(crate) struct KernelDiagnostics {
    /// The memory counters; `None` if memory is not limited.
    pub(crate) memory_events: Option<MemoryEvents>,
}

#[async_trait]
impl FailureDiagnostics for KernelDiagnostics {
    async fn kill_reason(&self) -> Option<String> {
        let killed = self.memory_events.as_ref().is_some_and(MemoryEvents::has_limit_kill);
        killed.then(|| "the kernel killed the sandbox at its memory limit".to_owned())
    }

    /// Always `true`: the sandbox's files are in memory that only this sandbox uses.
    async fn has_filled_disk(&self) -> bool {
        true
    }
}

impl NativeSandbox {
    pub(crate) fn new(
        handle: Arc<SandboxHandle>,
        enforcement: Enforcement,
        host_resources: HostResources,
        wait_time: Duration,
    ) -> Self {
        Self { handle, enforcement, host_resources: Some(host_resources), wait_time }
    }

    /// Prevents an archive from being removed until the sandbox has ended.
    pub(crate) fn set_archive_pin(&mut self, pin: Option<Arc<ArchivePin>>) {
        if let Some(held) = &mut self.host_resources {
            held.archive_pin = pin;
        }
    }
}

impl HostResources {
    /// Ends the sandbox and releases its resources. The kernel frees the overlay and its memory
    /// with the namespace.
    pub(crate) async fn release(mut self) -> Result<(), Fault> {
        if !self.helper.wait_for_exit(SHUTDOWN_GRACE_PERIOD).await {
            self.kill().await;
        }
        self.finish().await
    }

    /// Like [`Self::release`], but does not ask the agent to shut down.
    pub(crate) async fn destroy(mut self) -> Result<(), Fault> {
        self.kill().await;
        self.finish().await
    }

    async fn kill(&mut self) {
        // The sandbox's first process ends with the helper, and all other processes end with the
        // first one.
        self.helper.kill();
        let _ = self.helper.wait_for_exit(SHUTDOWN_GRACE_PERIOD).await;
    }

    async fn finish(self) -> Result<(), Fault> {
        let Self { mut group, .. } = self;
        let removed = spawn_blocking(move || group.remove()).await;
        match removed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Fault::new(
                FaultLayer::Sandbox,
                format!("cannot remove the sandbox's cgroup: {error}"),
            )),
            Err(error) => {
                Err(Fault::new(FaultLayer::Sandbox, format!("cannot close the sandbox: {error}")))
            }
        }
    }
}

#[async_trait]
impl Sandbox for NativeSandbox {
    fn handle(&self) -> &Arc<SandboxHandle> {
        &self.handle
    }

    fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    async fn counts(&self) -> SandboxCounts {
        let of_kernel =
            self.host_resources.as_ref().map(|held| held.group.counts()).unwrap_or_default();
        let SandboxCounts { commands_timed_out, disk_refused, .. } = self.handle.counts();
        let slot_seconds = Some(self.wait_time.as_secs_f64());
        SandboxCounts { commands_timed_out, disk_refused, slot_seconds, ..of_kernel }
    }

    async fn close(&mut self) -> Result<(), Fault> {
        let Some(held) = self.host_resources.take() else { return Ok(()) };
        // Ignore errors: a sandbox that no longer exists doesn't need to shut down.
        let _ = timeout(SHUTDOWN_GRACE_PERIOD, self.handle.shutdown()).await;
        held.release().await
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        let Some(held) = self.host_resources.take() else { return };
        // Wait in a thread for the helper and for the processes in the groups, because the async
        // runtime may be shutting down too.
        let HostResources { mut helper, mut group, archive_pin: archive } = held;
        helper.kill();
        cleanup::spawn(move || {
            drop(helper);
            // The sandbox has ended, so the archive may be removed now.
            drop(archive);
            if let Err(error) = group.remove() {
                tracing::warn!(%error, "cannot remove a sandbox's cgroup");
            }
        });
    }
}
