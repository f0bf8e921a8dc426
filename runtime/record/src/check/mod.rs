//! Checks that the files on disk match the record.
//!
//! A trial's journal records how the trial ended, and the hash of its patch. The grading journal
//! records the result each time the trial is graded. Each line of both journals has a checksum. The
//! trial's other files repeat these facts for people and tools. The check reports each file that
//! differs from the journals. The file can be restored if the journals or the blobs contain its
//! content. The check detects changes by disk errors, editors and scripts, but not by someone who
//! rewrites a journal and its checksums.

mod check_cache;
mod checked_trial;
mod corruption;
mod journal_summary;
mod missing_blobs;
mod recorded;
mod restore;
mod stamp;
mod trial;
mod verify;

pub(crate) use check_cache::CheckCache;
pub use checked_trial::CheckedTrial;
pub use corruption::{Corruption, Remedy};
pub(crate) use journal_summary::{GradingEntry, GradingSummary};
pub use journal_summary::{GradingFailure, PatchRef};
pub(crate) use trial::TrialCheck;
