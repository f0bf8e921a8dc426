//! Checks of datasets: runs of gold and noop, the attack pack, certificates, impossible variants and the quality
//! of tasks.
//!
//! This crate runs nothing. The caller runs the plan, and this crate evaluates the record.

mod attack;
pub mod attack_table;
mod certificate;
mod checks;
mod error;
mod impossible;
pub mod quality;

pub use attack::AttackRun;
pub use certificate::{REDUCED, certificate_of};
pub use checks::{
    Exposure, exposed_tasks, invalid, lint_notes, never_run, not_for_gold, passes_without_gold,
    unverified_tasks,
};
pub use error::ValidationError;
pub use impossible::{impossible, placed};
