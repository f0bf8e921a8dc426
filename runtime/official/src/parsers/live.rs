//! Port of SWE-bench-Live's default parser: the original `parse_log_pytest`, with the status words
//! mapped to pass, skip and fail.

use crate::parsers::{Edition, StatusMap, pytest};

pub(super) fn parse(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for (name, word) in pytest::parse_pytest(Edition::V4, log).iter() {
        let word = word.to_lowercase();
        let status = if word.contains("pass") {
            "PASSED"
        } else if word.contains("skip") {
            "SKIPPED"
        } else {
            // Expected failures also count as failures.
            "FAILED"
        };
        map.set(name, status);
    }
    map
}
