//! Forensics applies rules to a trial's record, to find steps that an honest agent has no reason to
//! take. No model is involved. The rules are in `configs/tables/forensics.toml`.

mod apply;
mod calls;
mod command;
mod content;
mod edits;
mod examine;
mod finding;
mod install;
mod reason;
mod rules;
mod shell;
mod solution_names;
#[cfg(test)]
mod tests;
mod upstream;

pub use content::Solution;
pub use examine::{ExaminationInput, examine};
pub use finding::{FindingKind, Findings};
pub use reason::{
    EndedTrial, count_exceptions, failure_reason, has_run_tests, reason_for_exceptions, runs_tests,
};
