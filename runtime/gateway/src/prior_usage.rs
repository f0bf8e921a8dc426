//! What a trial had used before it was interrupted.

use std::time::Duration;

use proctor_types::{RequestWaits, Spending};

/// Usage of a trial at the time it was interrupted.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriorUsage {
    /// Steps, tokens and cost.
    pub spending: Spending,
    /// Wall-clock time since the agent's start.
    pub elapsed: Duration,
    /// Part of `elapsed` spent waiting for the endpoint and for shared limits.
    pub wait_time: Duration,
    /// Total time spent in tools.
    pub tool_time: Duration,
    /// Total waits of all requests. Overlapping waits are each counted in full.
    pub wait_totals: RequestWaits,
    /// Part of `elapsed` spent in attempts that failed because of the endpoint.
    pub lost_time: Duration,
}
