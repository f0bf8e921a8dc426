//! Creates level-2 tasks. In these tasks, the agent writes the package `agent_code` from scratch,
//! with the functions and classes that a test file tests.

mod build;
mod gold;
mod module_names;
mod referenced_code;
mod rewrite;
mod statement;

pub(super) use gold::Files;
pub(super) use module_names::{TopLevelName, imported_module, module_name};
