//! What changed outside the work directory since the agent started.
//!
//! The walk of a whole root would take longer than a step. Only what was written is looked at: the upper
//! folder of a native sandbox's overlay, or the paths that an engine lists; and the other writable mounts,
//! such as `/dev/shm`, which hold little.

mod answer;
mod beside;
mod changes;
mod list;
mod mounts;
mod open;
mod paths;

pub use answer::{LayerState, layer};
pub use open::remember_upper;
