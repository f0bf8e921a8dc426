//! Integration tests for the scripted model, in one binary because linking is slow.

mod fuzz;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod openai_client;
mod server;
