//! Level 2: the agent rewrites what a test file is about from nothing, as a package `agent_code`.

mod gold;
mod make;
mod named;
mod rewrite;
mod statement;

pub(super) use gold::{Files, imported_from, module_of};
pub(super) use rewrite::Owner;
