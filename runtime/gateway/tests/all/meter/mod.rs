//! The meter under random interleavings: whatever comes when, steps are exact, and tokens and cost
//! pass a limit by no more than the last admitted answer. Nothing is sent here; the other
//! modules do the same over real HTTP.

#![expect(clippy::expect_used, reason = "a test that cannot go on says why")]

mod common;
mod random;
mod told;
