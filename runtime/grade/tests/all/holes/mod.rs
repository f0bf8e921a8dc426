//! Tests the known holes of the official graders. The `official` policy reproduces each of them,
//! and the `strict` policy has none.

#![expect(clippy::unwrap_used, reason = "a test may panic on a missing value")]

mod bench;
mod featurebench;
mod others;
mod swe_bench;
