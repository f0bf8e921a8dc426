//! An open sandbox, whose container is always removed in the end.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::{Enforcement, Sandbox, SandboxHandle};
use proctor_types::{Fault, SandboxCounts};
use tokio::time::timeout;

use crate::{
    container::ContainerGuard,
    counts::{self, ContainerRef},
    create::OpenContainer,
};

/// How long a sandbox may take to shut down before its container is removed.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(2);

pub struct DockerSandbox {
    handle: Arc<SandboxHandle>,
    enforcement: Enforcement,
    guard: Option<ContainerGuard>,
}

impl DockerSandbox {
    pub fn new(container: OpenContainer) -> Self {
        let OpenContainer { handle, enforcement, guard } = container;
        Self { handle, enforcement, guard: Some(guard) }
    }
}

#[async_trait]
impl Sandbox for DockerSandbox {
    fn handle(&self) -> &Arc<SandboxHandle> {
        &self.handle
    }

    fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    async fn counts(&self) -> SandboxCounts {
        let SandboxCounts { commands_timed_out, disk_refused, .. } = self.handle.counts();
        let container = self.guard.as_ref().and_then(|guard| {
            let engine = guard.engine()?;
            Some(ContainerRef {
                client: &engine.client,
                id: guard.id(),
                has_cgroup_v2: engine.has_cgroup_v2,
            })
        });
        let of_kernel = match container {
            Some(container) => counts::read_counts(&self.handle, &container).await,
            None => SandboxCounts::default(),
        };
        SandboxCounts { commands_timed_out, disk_refused, ..of_kernel }
    }

    async fn close(&mut self) -> Result<(), Fault> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        // Ignore errors: a sandbox that no longer exists doesn't need to shut down.
        let _ = timeout(SHUTDOWN_GRACE_PERIOD, self.handle.shutdown()).await;
        self.handle.disconnect("closed");
        guard.remove().await
    }
}

impl Drop for DockerSandbox {
    fn drop(&mut self) {
        self.handle.disconnect("dropped");
    }
}
