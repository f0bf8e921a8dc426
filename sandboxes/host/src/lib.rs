//! What both back ends do with this machine: show its programs on a host base, hide what a task
//! must not find, run set-up lines with its registries' settings, and distinguish live runtimes
//! from dead ones.

pub mod absent;
pub mod host_base;
mod runtime_lock;
pub mod setup_lines;

pub use runtime_lock::{DeadRuntime, Life, LockIdentity, RuntimeLock, dead_runtimes, life_of};
