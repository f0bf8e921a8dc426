//! Sandboxes: isolated environments for commands, accessible only through their sandbox agent.
//!
//! A [`Backend`] builds environments and opens sandboxes; a [`Sandbox`] is one open sandbox; a
//! [`SandboxHandle`] is the host's side of the channel to its agent.

#![warn(missing_docs)]

mod backend;
mod command;
mod enforcement;
mod handle;
mod kept;
mod kernel_counts;
mod machine;

pub use backend::{
    Backend, Base, ImagePlace, LayerSpec, Mount, Prepared, Sandbox, SandboxRequest, SourceTree,
};
pub use command::{Captured, Command, Completed, ending_of};
pub use enforcement::{Enforcement, hint_of};
pub use handle::{
    BlobSink, Exhausted, Incoming, LayerState, Listener, Running, Said, SandboxError,
    SandboxHandle, SandboxStream, SnapshotError, Witness, WrittenPaths,
};
pub use kept::Kept;
pub use kernel_counts::{KERNEL_FILES, kernel_counts};
pub use machine::Machine;
pub use proctor_wire as wire;
