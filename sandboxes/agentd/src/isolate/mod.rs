//! `agentd sandbox` creates a native sandbox from a layout and serves the channel as the sandbox's
//! first process. `agentd remove` removes files that an unprivileged user's sandboxes left behind
//! and that belong to ids in that user's range.
//!
//! The runtime has threads, so it must neither fork nor change its namespaces. Instead it executes
//! this single-threaded helper for each sandbox.

mod failure;
mod ids;
mod launch;
mod limits;
mod mounts;
mod removal;

pub use launch::run;
pub use removal::remove;
