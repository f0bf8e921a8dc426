//! Level 2: the agent writes the functions and classes that a test file tests from scratch, as the package
//! `agent_code`.

mod build;
mod gold;
mod referenced_code;
mod rewrite;
mod statement;

pub(super) use gold::{Files, imported_module, module_name};
pub(super) use rewrite::TopLevelName;
