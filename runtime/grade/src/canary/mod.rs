//! Real tests that run once more with one mistaken expectation, and must fail.

mod judge;
mod make;

pub(crate) use judge::Judged;
pub(crate) use make::{Canaries, Canary, make, mistakes};
