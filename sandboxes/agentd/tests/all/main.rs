//! Tests of the sandbox agent. They are a single binary, because linking is slow.

mod commands;
mod files;
mod garbage;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod snapshots;
mod support;
