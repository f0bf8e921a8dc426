//! Grades submissions to tasks that start from scratch. A submission is in a separate folder next
//! to the library that it rewrites, and must not use that library.

mod original;
mod submission;

pub(crate) use original::OriginalLibrary;
pub(crate) use submission::Submission;
