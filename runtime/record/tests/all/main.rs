//! The tests of the run directory. They are built as one binary, because linking is slow.

mod against_git;
mod between;
mod bodies;
mod common;
mod damage;
mod fuzz;
mod journal;
mod lost_blobs;
