//! Runs a benchmark's own grading procedure in a sandbox. `proctor-official` interprets the log.

mod alone;
mod from_scratch;
mod live;
mod script;

pub use alone::only_official;
pub use live::{OfficialRun, Trouble, has_official_run, procedure, run_official};
pub(crate) use live::{policy_fault, test_patch};
