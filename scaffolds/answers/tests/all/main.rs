//! The tests of answers. One binary, because linking is the slow part.

mod defects;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod round_trip;
#[path = "../../../../tests/tier.rs"]
mod tier;
