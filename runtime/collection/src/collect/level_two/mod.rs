//! Level 2 of the tasks. The agent writes the package `agent_code` from scratch, with the functions
//! and classes that a test file tests.

mod build;
mod gold;
mod referenced_code;
mod rewrite;
mod statement;

pub(super) use gold::{Files, imported_module, module_name};
pub(super) use rewrite::TopLevelName;
