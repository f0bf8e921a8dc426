//! Trials in the forms that other tools read and write, and what each form cannot hold.
//!
//! No files: the caller reads the journal and the patch, and opens what is written. `docs/export.md`, `docs/import.md` and
//! `docs/tables.md` are its pages.

mod atif;
mod conversation;
mod fidelity;
mod import;
mod inspect;
mod mini;
mod moment;
mod otel;
mod predictions;
mod rollouts;
mod submission;
mod swe_agent;
mod tables;
mod trial;

pub use atif::trajectory;
pub use fidelity::{Fidelity, LeftOut};
pub use import::{BadSource, Imported, read_trajectory, trajectory_format};
pub use inspect::{Log, sample};
pub use mini::mini;
pub use otel::spans;
pub use predictions::prediction;
pub use rollouts::rollout;
pub use submission::{Submission, day, harness_report, is_resolved, test_output};
pub use swe_agent::swe_agent;
pub use tables::{TableFormat, TableWriter};
pub use trial::{Format, Trial};
