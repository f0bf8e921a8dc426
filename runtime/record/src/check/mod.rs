//! Checks that the files on disk match the record.
//!
//! A trial's journal says how it ended and has the hash of its patch. The journal of its gradings
//! has their results. Each line of both has a checksum. The other files of a trial repeat this for
//! people and tools. Differences from the journals are reported, and repaired if the journals or
//! the blobs have the content. This protects against disks, editors and scripts, not against a
//! person who rewrites a journal with its checksums.

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
pub(crate) use facts::{Graded, Gradings, Named};
pub(crate) use known::Known;
pub(crate) use recorded::Recorded;
pub use trial::Checked;
pub(crate) use trial::{Check, cannot_be_read};
