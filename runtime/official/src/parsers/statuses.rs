//! The status words of the official harnesses.

/// The statuses that the official harnesses know, in the order of their enum.
pub(crate) const STATUSES: [&str; 5] = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"];

pub(crate) fn starts_with_status(line: &str) -> bool {
    STATUSES.iter().any(|status| line.starts_with(status))
}

pub(crate) fn ends_with_status(line: &str) -> bool {
    STATUSES.iter().any(|status| line.ends_with(status))
}
