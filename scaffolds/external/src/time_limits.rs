//! Time limits for commands that Proctor runs before and after the agent.

use std::time::Duration;

/// Time limit for a small helper command.
pub const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the agent may take to die after everything in the sandbox was killed.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);
