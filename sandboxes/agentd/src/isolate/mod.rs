//! `agentd sandbox` creates a native sandbox from a plan and serves the channel as its first
//! process. `agentd remove` removes what a normal user's sandboxes left with ids of that user's
//! range.
//!
//! The runtime is threaded and may neither fork nor change its namespaces. This helper is executed
//! again for each sandbox, single-threaded, and does nothing else.

mod failure;
mod ids;
mod launch;
mod limits;
mod mounts;
mod removal;

pub use launch::run;
pub use removal::remove;
