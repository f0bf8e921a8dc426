//! `agentd sandbox`: makes a native sandbox out of a plan and serves the channel as its first process. `agentd remove`
//! removes what sandboxes of a common user left with ids of that user's range.
//!
//! The runtime is threaded and may neither fork nor change its namespaces; this helper is
//! re-executed for each sandbox, single-threaded, and does nothing else.

mod failure;
mod ids;
mod launch;
mod limits;
mod mounts;
mod removal;

pub use launch::run;
pub use removal::remove;
