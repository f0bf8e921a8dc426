//! Grading what was written from scratch: the submission beside the library that it was to write
//! again, and not out of it.

mod original;
mod submission;

pub(crate) use original::Original;
pub(crate) use submission::Submission;
