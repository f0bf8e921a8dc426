//! Users' own agents, whose loop runs outside the task's sandbox.
//!
//! ```text
//! program   the user's program, copied by content   settings  the keys of [arms.settings]
//! own_sandbox  the sandbox that it runs in           agent     the program in it, a line-based peer
//! rpc       one message of JSON-RPC                  actions   commands and files of the task's sandbox
//! conversation  the loop of all protocols; detects idleness, loops and invalid messages
//! process   the scaffold `process`                   acp       the scaffold `acp`
//! mcp       the scaffold `mcp`                       python    the scaffold `python:FILE.py:FUNCTION`
//! interpreter  the Python of such an arm, and its packages
//! ```
//!
//! See `docs/reference/host.md`.

mod acp;
mod actions;
mod agent;
mod conversation;
mod ending;
mod interpreter;
mod limits;
mod lines;
mod mcp;
mod own_sandbox;
mod process;
mod program;
mod python;
mod rpc;
mod settings;

use std::sync::Arc;

use proctor_scaffold_api::Scaffold;
pub use program::{MOUNT, ProgramError, ProgramStore};
pub use python::{NAME as PYTHON, restore_python};
pub use settings::{COMMAND_KEY, PROGRAM_KEY};

/// Returns the names used in configurations, sorted.
pub fn names() -> &'static [&'static str] {
    &["acp", "mcp", "process", python::NAME]
}

/// Returns whether a name from a configuration or a record belongs to a scaffold in this crate. For
/// a Python scaffold, the name contains the file and the function.
pub fn is_host_scaffold(name: &str) -> bool {
    names().contains(&name) || python::is_python_scaffold(name)
}

/// Returns the scaffold with this name.
///
/// # Errors
/// Fails if the built-in data is invalid. A test makes sure that it isn't.
pub fn scaffold(name: &str, programs: ProgramStore) -> Result<Option<Arc<dyn Scaffold>>, String> {
    Ok(Some(match name {
        "acp" => Arc::new(acp::Acp::new(programs)?),
        "mcp" => Arc::new(mcp::Mcp::new(programs)?),
        "process" => Arc::new(process::Process::new(programs)?),
        name if python::is_python_scaffold(name) => Arc::new(python::Python::new(programs, name)?),
        _ => return Ok(None),
    }))
}
