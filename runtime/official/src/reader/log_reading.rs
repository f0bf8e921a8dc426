//! The results that a reader finds in a log.

use std::collections::BTreeMap;

use proctor_types::TestStatus;

/// The expected tests' results according to a log.
#[derive(Debug, Default)]
pub struct LogReading {
    pub tests: BTreeMap<String, TestStatus>,
    /// Whether the log ends like a complete run.
    pub is_complete: bool,
    /// Reasons to doubt the log itself.
    pub doubts: Vec<String>,
}

/// Returns the worst of the statuses that were printed for a test. A failure is final.
pub fn worst_status(statuses: &[TestStatus]) -> TestStatus {
    let order = [
        TestStatus::Failed,
        TestStatus::Error,
        TestStatus::Skipped,
        TestStatus::Xfailed,
        TestStatus::Xpassed,
        TestStatus::Flaky,
        TestStatus::Passed,
    ];
    order.into_iter().find(|status| statuses.contains(status)).unwrap_or(TestStatus::Missing)
}
