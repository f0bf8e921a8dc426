//! What both back ends do with this machine: show its programs on a host base, leave out what a task must
//! not find there, run set-up lines with its registries' settings, and tell living runtimes from dead.

pub mod absent;
pub mod host_base;
mod runtime_lock;
pub mod setup_lines;

pub use runtime_lock::{DeadRuntime, Life, LockIdentity, RuntimeLock, dead_runtimes, life_of};
