//! Integration tests of the answers crate. They are a single binary, because linking is slow.

mod defects;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod round_trip;
#[path = "../../../../tests/tier.rs"]
mod tier;
