//! Grades work from scratch: the submission is beside the library that it rewrites and must not use
//! it.

mod original;
mod submission;

pub(crate) use original::Original;
pub(crate) use submission::Submission;
