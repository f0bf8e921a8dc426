//! The `proctor` binary, end to end, as its users call it.

mod arrows;
mod demo;
mod limits;
mod mistakes;
mod resume;
mod stage;
