//! Runs a benchmark's own grading procedure in a sandbox. `proctor-official` interprets the log.

mod from_scratch;
mod official;
mod official_only;
mod script;

pub use official::{
    IncompleteReason, OfficialRun, has_official_run, is_official_only, procedure_commands,
    run_official,
};
pub(crate) use official::{policy_fault, test_patch};
