//! Canaries: real tests that run a second time with one wrong expectation and must fail.

mod judge;
mod make;

pub(crate) use judge::CanaryResults;
pub(crate) use make::{Canaries, Canary, Kind, make, mistakes, quoted};
