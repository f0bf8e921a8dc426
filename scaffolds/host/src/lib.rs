//! Agents of a user's own whose loop runs outside the task's sandbox.
//!
//! ```text
//! program   the user's program, copied by content   settings  the keys of [arms.settings]
//! agent     the program in its own sandbox          lines     its output, line by line
//! rpc       one message of JSON-RPC                  process   what it may ask, and how it ends
//! actions   commands and files of the task's sandbox
//! ```
//!
//! `docs/host.md` is the page of this crate.

mod actions;
mod agent;
mod ending;
mod limits;
mod lines;
mod process;
mod program;
mod rpc;
mod settings;

pub use process::Process;
pub use program::{MOUNT, ProgramError, Programs};
pub use settings::{COMMAND, PROGRAM};

/// The names that configurations use, sorted.
pub fn names() -> &'static [&'static str] {
    &["process"]
}
