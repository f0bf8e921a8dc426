//! The tests of the run directory. They are built as one binary, because linking is slow.

mod against_git;
mod bodies;
mod common;
mod corruption;
mod fuzz;
mod journal;
mod missing_blobs;
mod patch_policy;
