//! Checks datasets: evaluates runs of gold, noop and the attack pack, writes certificates, creates
//! impossible variants and judges the quality of tasks.
//!
//! This crate runs nothing itself: the caller runs the plan, and this crate evaluates the record.

mod attack;
pub mod attack_table;
mod certificate;
mod checks;
mod error;
mod impossible;
pub mod quality;

pub use attack::AttackRun;
pub use certificate::{REDUCED_ARM, build_certificate};
pub use checks::{
    Exposure, find_task_exposures, impossible_tasks, invalid_trial_notes, lint_notes,
    passing_without_gold_notes, unused_entrypoint_notes, unverified_gold_notes, verifier_defect,
};
pub use error::ValidationError;
pub use impossible::{impossible_variant, make_paths_absolute};
