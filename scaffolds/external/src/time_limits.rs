//! Time limits of the commands around the agent.

use std::time::Duration;

/// Time limit of a small helper command.
pub const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the agent may take to die after everything in the sandbox was killed.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);
