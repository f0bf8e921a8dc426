//! Measures how limits and waits affected a trial, from the sandbox's counters and the meter's
//! clock.

use std::{sync::OnceLock, time::Duration};

use proctor_sandbox_api::Sandbox;
use proctor_types::{
    Fault, FaultLayer, Noise, NoisePolicy, RequestWaits, SandboxCounts, count_with_noun,
};
use tokio::time::timeout;

/// Maximum time that an unresponsive sandbox may delay a trial's outcome.
const COUNTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Measures how a sandbox's counters change between the agent's start and end. Setup and the leak
/// check are excluded.
pub(crate) struct CounterDelta<'a> {
    sandbox: &'a dyn Sandbox,
    initial_counts: OnceLock<SandboxCounts>,
}

impl<'a> CounterDelta<'a> {
    pub(crate) fn new(sandbox: &'a dyn Sandbox) -> Self {
        Self { sandbox, initial_counts: OnceLock::new() }
    }

    /// Marks the agent's start.
    pub(crate) async fn begin(&self) {
        let counts = self.read_counts().await;
        // `set` fails only if the value is already set, and an agent starts only once.
        let _ = self.initial_counts.set(counts);
    }

    /// Returns the counts since the agent started, or `None` if it did not start.
    pub(crate) async fn end(&self) -> Option<SandboxCounts> {
        let first = self.initial_counts.get()?;
        Some(self.read_counts().await.counts_since(first))
    }

    async fn read_counts(&self) -> SandboxCounts {
        timeout(COUNTS_TIMEOUT, self.sandbox.counts()).await.unwrap_or_default()
    }
}

/// Describes the sandbox limits that affected commands. Returns `None` if no limit did.
pub(crate) fn describe_limits(counts: &SandboxCounts) -> Option<String> {
    let some = |count: Option<u64>| count.filter(|count| *count > 0);
    let mut limits = Vec::new();
    if let Some(killed) = some(counts.memory.oom_kills) {
        let limit = counts
            .memory
            .limit_bytes
            .map_or_else(String::new, |bytes| format!(" of {} MiB", bytes >> 20));
        limits.push(format!(
            "the kernel killed {} at the memory limit{limit}",
            count_with_noun(killed, "process")
        ));
    }
    if let Some(refused) = some(counts.processes_refused) {
        limits
            .push(format!("{} rejected by the process limit", count_with_noun(refused, "process")));
    }
    if let Some(refused) = some(counts.disk_refused) {
        limits.push(format!("{} rejected by the disk limit", count_with_noun(refused, "write")));
    }
    (!limits.is_empty()).then(|| limits.join(", "))
}

/// Returns the value of an outcome's `build_noise` field.
pub(crate) fn build_noise(
    sandbox: SandboxCounts,
    waits: Option<RequestWaits>,
    since_step: Option<u64>,
) -> Result<Noise, Fault> {
    let policy = NoisePolicy::shipped().map_err(|error| Fault::new(FaultLayer::Record, error))?;
    Ok(Noise { sandbox, touched: sandbox.reached_limits(policy), waits, since_step })
}

#[cfg(test)]
mod tests {
    use proctor_types::MemoryCounts;

    use super::*;

    #[test]
    fn describe_limits_lists_only_limits_that_took_effect() {
        assert_eq!(describe_limits(&SandboxCounts::default()), None);
        let memory = MemoryCounts {
            limit_bytes: Some(2048 << 20),
            oom_kills: Some(1),
            at_limit: Some(9),
            ..MemoryCounts::default()
        };
        let counts = SandboxCounts {
            memory,
            processes_refused: Some(2),
            disk_refused: Some(0),
            ..SandboxCounts::default()
        };
        let said = describe_limits(&counts).unwrap();
        assert_eq!(
            said,
            "the kernel killed 1 process at the memory limit of 2048 MiB, 2 processes rejected by the process limit"
        );
    }
}
