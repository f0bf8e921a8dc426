//! Setup: a sandbox made ready for one task, for driving or for grading.

mod apply;
mod environment;
mod from_scratch;
mod leak_check;
mod source;
mod workdir;

pub use apply::{ApplyError, apply_patch};
pub use environment::{base_of, layer_spec};
pub use leak_check::{LayerFindings, Leak, LeakKind, LeakReport, Unseen};
pub use source::Sources;
pub use workdir::{prepare_for_driving, snapshot_request};
