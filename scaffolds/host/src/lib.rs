//! Agents of a user's own whose loop runs outside the task's sandbox.
//!
//! ```text
//! program   the user's program, copied by content   settings  the keys of [arms.settings]
//! own       the sandbox that it runs in              agent     the program in it, talked to line by line
//! rpc       one message of JSON-RPC                  actions   commands and files of the task's sandbox
//! process   the scaffold `process`                   acp       the scaffold `acp`
//! mcp       the scaffold `mcp`                       python    the scaffold `python:FILE.py:FUNCTION`
//! interpreter  the Python of such an arm, and what is installed for it
//! ```
//!
//! `docs/host.md` is the page of this crate.

mod acp;
mod actions;
mod agent;
mod ending;
mod interpreter;
mod limits;
mod lines;
mod mcp;
mod own;
mod process;
mod program;
mod python;
mod rpc;
mod settings;

use std::sync::Arc;

use proctor_scaffold_api::Scaffold;
pub use program::{MOUNT, ProgramError, Programs};
pub use python::{NAME as PYTHON, restore_python};
pub use settings::{COMMAND, PROGRAM};

/// The names that configurations use, sorted.
pub fn names() -> &'static [&'static str] {
    &["acp", "mcp", "process", python::NAME]
}

/// Whether a name in a configuration or a record is of a scaffold of this crate. A Python function's has its file and its
/// own name in it.
pub fn is_host(name: &str) -> bool {
    names().contains(&name) || python::is_named(name)
}

/// The scaffold of a name.
///
/// # Errors
/// The data that Proctor was built with does not load, which a test rules out.
pub fn scaffold(name: &str, programs: Programs) -> Result<Option<Arc<dyn Scaffold>>, String> {
    Ok(Some(match name {
        "acp" => Arc::new(acp::Acp::new(programs)?),
        "mcp" => Arc::new(mcp::Mcp::new(programs)?),
        "process" => Arc::new(process::Process::new(programs)?),
        name if python::is_named(name) => Arc::new(python::Python::new(programs, name)?),
        _ => return Ok(None),
    }))
}
