//! One open sandbox.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::{Enforcement, Sandbox, SandboxHandle};
use proctor_types::{Fault, Layer};
use tokio::{
    process::{Child, ChildStderr},
    task::spawn_blocking,
    time::timeout,
};

use crate::{cgroup::Group, registry::Entry};

/// How long a sandbox may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) struct NativeSandbox {
    handle: Arc<SandboxHandle>,
    enforcement: Enforcement,
    held: Option<Held>,
}

/// What a sandbox occupies on the host.
pub(crate) struct Held {
    pub(crate) child: Child,
    pub(crate) lifeline: ChildStderr,
    pub(crate) group: Group,
    /// Keeps the runtime's entry locked as long as the sandbox lives, whoever drops the back end.
    pub(crate) owner: Arc<Entry>,
}

impl NativeSandbox {
    pub(crate) fn new(handle: Arc<SandboxHandle>, enforcement: Enforcement, held: Held) -> Self {
        Self { handle, enforcement, held: Some(held) }
    }
}

impl Held {
    /// Ends the sandbox and returns what it held. The overlay and its memory go with the namespace.
    pub(crate) async fn release(mut self) -> Result<(), Fault> {
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.kill().await;
        }
        self.finish().await
    }

    /// As [`Held::release`], without asking.
    pub(crate) async fn destroy(mut self) -> Result<(), Fault> {
        self.kill().await;
        self.finish().await
    }

    async fn kill(&mut self) {
        // The first process dies with the helper, and everything with the first process.
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }

    async fn finish(self) -> Result<(), Fault> {
        let Self { lifeline, mut group, owner, .. } = self;
        drop(lifeline);
        let removed = spawn_blocking(move || group.remove()).await;
        drop(owner);
        match removed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Fault::new(
                Layer::Sandbox,
                format!("remove the sandbox's control group: {error}"),
            )),
            Err(error) => Err(Fault::new(Layer::Sandbox, format!("close the sandbox: {error}"))),
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

    async fn close(&mut self) -> Result<(), Fault> {
        let Some(held) = self.held.take() else { return Ok(()) };
        // A sandbox that is gone already cannot be asked, and need not.
        let _ = timeout(GRACE, self.handle.shutdown()).await;
        held.release().await
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        // The helper is killed on drop, and the closed lifeline ends the sandbox in any case. The
        // groups need someone to wait for the dead: a thread, since the runtime may be ending too.
        let Held { child, lifeline, mut group, owner } = held;
        drop(child);
        drop(lifeline);
        std::thread::spawn(move || {
            if let Err(error) = group.remove() {
                tracing::warn!(%error, "a dropped sandbox left its control group");
            }
            drop(owner);
        });
    }
}
