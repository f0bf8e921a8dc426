//! Tests that run trials in real sandboxes. They share one binary because linking is slow.

mod hidden_copies;
mod model_endpoint;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
