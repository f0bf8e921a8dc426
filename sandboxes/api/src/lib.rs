//! Sandboxes: isolated environments for commands, accessible only through their sandbox agent.
//!
//! A [`Backend`] builds environments and opens sandboxes; a [`Sandbox`] is one open sandbox; a
//! [`SandboxHandle`] is the host's side of the channel to its agent.

#![warn(missing_docs)]

mod backend;
mod cache_entry;
mod command;
mod enforcement;
mod handle;
mod kernel_counts;
mod machine;

pub use backend::{
    Backend, Base, ImageLocation, LayerSpec, Mount, PreparedEnvironment, Sandbox, SandboxRequest,
    SourceTree,
};
pub use cache_entry::CacheEntry;
pub use command::{CapturedOutput, Command, CommandOutput, describe_exit};
pub use enforcement::{Enforcement, find_hint};
pub use handle::{
    BlobSink, CommandEvent, Exhaustion, FailureDiagnostics, IncomingConnection, LayerState,
    Listener, RunningCommand, SandboxError, SandboxHandle, SandboxStream, SnapshotError,
    WrittenPathLister,
};
pub use kernel_counts::{KERNEL_FILES, read_kernel_counts};
pub use machine::Machine;
pub use proctor_wire as wire;
