//! Host-side code that both back ends share. It exposes the host's programs in a host base, hides
//! what a task must not find, runs setup commands with the machine's registry settings, and
//! distinguishes live runtimes from dead ones.

pub mod absent;
pub mod host_base;
mod runtime_lock;
pub mod setup_lines;

pub use runtime_lock::{
    DeadRuntime, Liveness, LockIdentity, RuntimeLock, check_liveness, dead_runtimes,
};
