//! The tests of trials in real sandboxes. One binary, because linking is the slow part.

mod hidden_copies;
mod model_endpoint;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
