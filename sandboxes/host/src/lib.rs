//! Host-side code that both back ends share: expose the host's programs in a host base, hide what a
//! task must not find, run set-up lines with the machine's registry settings, and distinguish live
//! runtimes from dead ones.

pub mod absent;
pub mod host_base;
mod runtime_lock;
pub mod setup_lines;

pub use runtime_lock::{
    DeadRuntime, Liveness, LockIdentity, RuntimeLock, check_liveness, dead_runtimes,
};
