//! The tests of setup and the leak check. One binary, because linking is the slow part.

mod leak_check;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod sources;
