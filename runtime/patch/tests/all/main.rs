//! The tests of patches. One binary, because linking is the slow part.

mod common;
mod fuzz;
mod patch;
