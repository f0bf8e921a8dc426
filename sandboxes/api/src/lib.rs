//! What a sandbox is: a place where commands run, reached through its sandbox agent and nothing else.
//!
//! A [`Backend`] builds environments and opens sandboxes; a [`Sandbox`] is one open sandbox; a
//! [`SandboxHandle`] is the host's end of the channel to its agent. Every back end passes the one
//! conformance kit.

pub mod absent;
mod agent;
pub mod attacks;
mod backend;
mod command;
pub mod conformance;
mod enforcement;
mod handle;
pub mod host_base;
mod kept;
mod machine;
mod runtime_lock;
pub mod setup_lines;

pub use agent::{AGENT, agent_digest};
pub use backend::{Backend, Base, LayerSpec, Prepared, Sandbox, SandboxRequest, SourceTree};
pub use command::{Captured, Command, Completed, ending_of};
pub use enforcement::{Enforcement, hint_of};
pub use handle::{
    BlobSink, Exhausted, Incoming, SandboxError, SandboxHandle, SandboxStream, SnapshotError,
    Witness,
};
pub use kept::Kept;
pub use machine::Machine;
pub use proctor_wire as wire;
pub use runtime_lock::{DeadRuntime, Life, LockIdentity, RuntimeLock, dead_runtimes, life_of};
