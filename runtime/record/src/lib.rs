//! The record: the run directory, journals, blobs, trees and the patches between them.
//!
//! This crate does not depend on sandboxes or models. Everything is synchronous, which keeps the
//! order of writes simple. An async caller blocks for one short write per call.

mod blobs;
mod check;
mod disk;
mod error;
mod events;
mod journal;
mod journal_reader;
mod labels;
mod lease;
mod now;
mod pack;
mod parallel_map;
mod patch;
mod pinned_dirs;
mod run_dir;
mod run_file;
mod spending;
mod stored_tree;
mod tree;
mod trial_dir;
pub mod trial_lookup;
mod unplanned;
mod workers;

pub use blobs::{BlobWriter, Blobs};
pub use check::{CheckedTrial, Corruption, GradingFailure, PatchRef, Remedy};
pub use error::RecordError;
pub use events::{EventLine, EventReader};
pub use journal::Journal;
pub use journal_reader::{BadLine, JournalContents, read_journal};
pub use labels::Labels;
pub use lease::{FinishedTrials, Lease, LeaseResult};
pub use now::now;
pub use parallel_map::parallel_map;
pub use patch::{CollectedPatch, OmittedPath, PatchPolicy, collect_patch};
pub use run_dir::{RunDir, TrialVerifier};
pub use spending::{TrialSpending, read_earlier_tries, read_journal_spending, read_trial_spending};
pub use tree::{Tree, TreeDifference};
pub use trial_dir::{GradingFiles, TrialDir};
pub use unplanned::UnplannedDir;
