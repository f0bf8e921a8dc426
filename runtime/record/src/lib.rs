//! The record: the run directory, journals, blobs, trees and the patches between them.
//!
//! This crate does not depend on sandboxes or models. Everything is synchronous: an async caller
//! blocks for one short write per call, and the order of writes stays simple.

mod between;
mod blobs;
mod check;
mod disk;
mod error;
mod events;
pub mod find;
mod journal;
mod labels;
mod lease;
mod now;
mod on_all_cores;
mod pack;
mod reading;
mod run_dir;
mod run_file;
mod spending;
mod tree;
mod trial_dir;
mod unplanned;

pub use between::{Collected, LeftOut, PatchPolicy, between};
pub use blobs::{Blobs, NewBlob};
pub use check::{Checked, Damage, PatchFacts, Remedy};
pub use error::RecordError;
pub use events::{EventLine, Events};
pub use journal::Journal;
pub use labels::Labels;
pub use lease::{EndedTrials, Lease, Leased};
pub use now::now;
pub use on_all_cores::on_all_cores;
pub use reading::{BadLine, Reading, read_journal};
pub use run_dir::{RunDir, Verifier};
pub use spending::{earlier_tries, spent_by, spent_in};
pub use tree::{Difference, Tree};
pub use trial_dir::{Grading, TrialDir};
pub use unplanned::Unplanned;
