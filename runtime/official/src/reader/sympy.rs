//! `bin/test --verbose` of sympy: names are bare, so that all tests of one name stand or fall
//! together.

use std::sync::LazyLock;

use proctor_types::TestStatus;
use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::{LogReading, worst},
};

static END: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^=+ tests finished: \d+ "));

pub(super) fn is_one(log: &str) -> bool {
    log.lines().any(|line| line.starts_with("==") && line.contains(" test process starts "))
}

pub(super) fn read(log: &str, wanted: &[String]) -> LogReading {
    let mut reading = LogReading { ended: END.is_match(log), ..LogReading::default() };
    for id in wanted {
        let mut statuses = Vec::new();
        for line in log.lines().map(str::trim) {
            let mark = line.strip_prefix(id.as_str()).and_then(|rest| rest.strip_prefix(' '));
            statuses.extend(match mark.map(str::trim) {
                Some("ok") => Some(TestStatus::Passed),
                Some("F") => Some(TestStatus::Failed),
                Some("E") => Some(TestStatus::Error),
                Some("f") => Some(TestStatus::Xfailed),
                Some("X") => Some(TestStatus::Xpassed),
                Some("s" | "w") => Some(TestStatus::Skipped),
                _ => None,
            });
            // The heading of a failure: ____ file.py:test_name ____.
            let heading = line.trim_matches('_').trim();
            if line.starts_with("__") && heading.rsplit(':').next() == Some(id.as_str()) {
                statuses.push(TestStatus::Failed);
            }
        }
        reading.tests.insert(id.clone(), worst(&statuses));
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_one_name_stand_or_fall_together() {
        let log = "==== test process starts ====\na.py[1]\ntest_x ok\nb.py[1]\ntest_x E\ntest_y ok\n\
                   ==== tests finished: 2 passed, 1 exceptions, ====\n";
        let reading = read(log, &["test_x".to_owned(), "test_y".to_owned()]);
        assert_eq!(reading.tests["test_x"], TestStatus::Error);
        assert_eq!(reading.tests["test_y"], TestStatus::Passed);
        assert!(reading.ended);
    }
}
