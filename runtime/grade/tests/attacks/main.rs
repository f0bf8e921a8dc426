//! The named attacks on grading. Each test shows that the attack fails, and that it is its defence
//! that it fails by: with the defence taken down it succeeds, or is no longer seen.

mod bench;
mod honest;
mod inside;
mod loading;
mod results;
mod tree;
