//! Reads and writes trials in other tools' formats and reports what each format cannot represent.
//!
//! The crate opens no files: the caller reads the journal and the patch, and writes the output. See
//! `docs/export.md`, `docs/import.md` and `docs/tables.md`.

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
