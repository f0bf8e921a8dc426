//! What limits and waits did to a trial, from the sandbox's counters and the meter's clock.

use std::{sync::OnceLock, time::Duration};

use proctor_sandbox_api::Sandbox;
use proctor_types::{Fault, Layer, Noise, NoisePolicy, RequestWaits, SandboxCounts};
use tokio::time::timeout;

/// A sandbox that does not answer keeps no trial from its outcome for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at a sandbox when its agent begins and when it has ended: what setup and the leak check cost is not the agent's.
pub(crate) struct Looks<'a> {
    sandbox: &'a dyn Sandbox,
    first: OnceLock<SandboxCounts>,
}

impl<'a> Looks<'a> {
    pub(crate) fn new(sandbox: &'a dyn Sandbox) -> Self {
        Self { sandbox, first: OnceLock::new() }
    }

    /// The agent begins.
    pub(crate) async fn begin(&self) {
        let counts = self.counts().await;
        // An agent begins once.
        let _ = self.first.set(counts);
    }

    /// What was counted since the agent began; nothing where it did not.
    pub(crate) async fn end(&self) -> Option<SandboxCounts> {
        let first = self.first.get()?;
        Some(self.counts().await.since(first))
    }

    async fn counts(&self) -> SandboxCounts {
        timeout(PATIENCE, self.sandbox.counts()).await.unwrap_or_default()
    }
}

/// `noise` of an outcome.
pub(crate) fn noise(
    sandbox: SandboxCounts,
    waits: Option<RequestWaits>,
    since_step: Option<u64>,
) -> Result<Noise, Fault> {
    let policy = NoisePolicy::shipped().map_err(|error| Fault::new(Layer::Record, error))?;
    Ok(Noise { sandbox, touched: sandbox.touched(policy), waits, since_step })
}
