//! The tests of the scripted model. One binary, because linking is the slow part.

mod fuzz;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod openai_client;
mod wire;
