//! Tests of setup and the leak check. They share one binary because linking is slow.

mod leak_check;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod sources;
