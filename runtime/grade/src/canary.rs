//! Renamed copies of real tests that must fail.

use serde::Serialize;

/// A test that must not pass. Laid after the patch, run with the real tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Canary {
    /// Its file, relative to the work directory.
    pub file: String,
    /// Its function within the file: `test_a` or `TestA::test_b`.
    pub function: String,
}
