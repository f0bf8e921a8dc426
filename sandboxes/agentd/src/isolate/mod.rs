//! `agentd sandbox`: makes a native sandbox out of a plan and serves the channel as its first process.
//!
//! The runtime is threaded and may neither fork nor change its namespaces; this helper is
//! re-executed for each sandbox, single-threaded, and does nothing else.

mod failure;
mod ids;
mod launch;
mod limits;
mod mounts;

pub use launch::run;
