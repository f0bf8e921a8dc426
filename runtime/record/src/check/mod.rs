//! Checks that the files on disk match the record.
//!
//! A trial's journal records how the trial ended, and the hash of its patch. The journal of its
//! gradings records their results. Each line of both journals has a checksum. The trial's other
//! files repeat these facts for people and tools. If they differ from the journals, the difference
//! is reported, and the file is restored if the journals or the blobs have its content. This
//! protects against disk errors, editors and scripts, but not against someone who rewrites a
//! journal and its checksums.

mod damage;
mod facts;
mod known;
mod lost;
mod recorded;
mod restore;
mod stamp;
mod trial;
mod verify;

pub use damage::{Damage, Remedy};
pub use facts::PatchFacts;
pub(crate) use facts::{GradingEntry, Gradings, TrialName};
pub(crate) use known::CheckCache;
pub(crate) use recorded::RecordedJson;
pub use trial::Checked;
pub(crate) use trial::{Check, describe_read_error};
