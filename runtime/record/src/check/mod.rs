//! Whether what is on disk is what was recorded.
//!
//! The journal of a trial says how it ended and what its patch hashes to; the journal of its gradings
//! says what they found. Each line of both has a checksum. The other files of a trial repeat that for
//! people and tools, so whatever differs from the journals is named and, where they or the blobs hold
//! the same, written anew. Nobody can keep a person from rewriting a journal with its checksums: this is
//! against disks, editors and scripts.

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
