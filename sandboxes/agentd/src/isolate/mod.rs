//! `agentd sandbox` creates a native sandbox from a layout and serves the channel as its first
//! process. `agentd remove` removes files that a normal user's sandboxes left with ids of that
//! user's range.
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
