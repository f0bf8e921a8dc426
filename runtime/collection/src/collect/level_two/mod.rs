//! Level 2: the agent writes the functions and classes that a test file tests from scratch, as the package
//! `agent_code`.

mod build;
mod gold;
mod module_names;
mod referenced_code;
mod rewrite;
mod statement;

pub(super) use gold::Files;
pub(super) use module_names::{TopLevelName, imported_module, module_name};
