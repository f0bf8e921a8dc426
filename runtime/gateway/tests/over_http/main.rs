//! The gateway against a scripted model, over real HTTP. One binary, as linking is the slow part.

mod answers;
mod budgets;
mod clients;
mod common;
mod ends;
mod money;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod parallel;
mod rates;
mod retries;
mod secret;
mod server;
mod trouble;
