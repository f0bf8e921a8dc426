//! The tests of the sandbox agent. They form one binary, because linking is slow.

mod commands;
mod files;
mod garbage;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod snapshots;
mod support;
