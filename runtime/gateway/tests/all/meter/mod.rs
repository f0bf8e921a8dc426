//! Tests the meter under random interleavings: in every order, step limits are exact, and tokens
//! and cost exceed a limit by at most the last admitted response. These tests send nothing. The
//! other modules test the same rules over real HTTP.

#![expect(clippy::expect_used, reason = "tests may panic with a message")]

mod common;
mod concurrency;
mod random;
