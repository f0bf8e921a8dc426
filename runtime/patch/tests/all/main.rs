//! Integration tests of the patch crate, in one binary because linking is slow.

mod common;
mod fuzz;
mod patch;
