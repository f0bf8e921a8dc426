//! The seat: a room made ready for one task, for driving or for grading.

mod apply;

pub use apply::{ApplyError, apply_patch};
