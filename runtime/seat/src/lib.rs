//! The seat: a room made ready for one task, for driving or for grading.

mod apply;
mod environment;
mod from_scratch;
mod seal;
mod source;
mod workdir;

pub use apply::{ApplyError, apply_patch};
pub use environment::layer_spec;
pub use seal::{LayerSeal, Leak, LeakKind, Sealed, Unseen};
pub use source::Sources;
pub use workdir::{prepare_for_driving, snapshot_request};
