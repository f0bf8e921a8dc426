//! The tests of the run directory. One binary, because linking is the slow part.

mod against_git;
mod between;
mod bodies;
mod common;
mod damage;
mod fuzz;
mod journal;
mod lost_blobs;
