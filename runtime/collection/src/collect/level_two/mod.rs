//! Level 2: the agent writes the functions and classes that a test file tests from scratch, as the package
//! `agent_code`.

mod gold;
mod make;
mod named;
mod rewrite;
mod statement;

pub(super) use gold::{Files, imported_from, module_of};
pub(super) use rewrite::Owner;
