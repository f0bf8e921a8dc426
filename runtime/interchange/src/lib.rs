//! Reads and writes trials in other tools' formats, and reports what each format cannot represent.
//!
//! The crate opens no files. The caller reads the journal and the patch, and writes the output. See
//! `docs/reference/export.md`, `docs/reference/export.md` and `docs/reference/tables.md`.

mod atif;
mod conversation;
mod fidelity;
mod format;
mod import;
mod inspect;
mod mini;
mod otel;
mod predictions;
mod rollouts;
mod submission;
mod swe_agent;
mod tables;
mod timestamps;
mod trial;

pub use atif::atif_trajectory;
pub use fidelity::{Fidelity, Omission};
pub use format::Format;
pub use import::{ImportError, ImportedTrial, detect_format, read_trajectory};
pub use inspect::{InspectLog, inspect_sample};
pub use mini::mini_trajectory;
pub use otel::otel_spans;
pub use predictions::prediction;
pub use rollouts::rollout;
pub use submission::{Submission, format_compact_date, harness_report, is_resolved, test_output};
pub use swe_agent::swe_agent_trajectory;
pub use tables::{TableFormat, TableWriter};
pub use trial::Trial;
