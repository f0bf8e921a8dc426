//! The tests of the sandbox agent. One binary, because linking is the slow part.

mod commands;
mod files;
mod garbage;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod snapshots;
mod support;
