//! unittest's verbose output, and Django's, which is the same with more between the lines.

use std::sync::LazyLock;

use proctor_types::TestStatus;
use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::{LogReading, worst},
};

static RAN: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^Ran \d+ tests? in [\d.]+s$"));
static RESULT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^(?:OK|FAILED|NO TESTS RAN)(?: \([a-z0-9=, ]+\))?$"));

pub(super) fn is_one(log: &str) -> bool {
    RAN.is_match(log)
}

pub(super) fn read(log: &str, wanted: &[String]) -> LogReading {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let mut reading = LogReading {
        ended: RAN.find_iter(log).last().is_some_and(|ran| RESULT.is_match(&log[ran.end()..])),
        ..LogReading::default()
    };
    let count = RAN.find_iter(log).count();
    if count > 1 {
        reading.doubts.push(format!("{count} runs end in the log"));
    }
    for id in wanted {
        let mut statuses = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            if let Some(rest) = line.strip_prefix(id.as_str()) {
                statuses
                    .extend(rest.strip_prefix(" ...").map(|rest| ending(rest, &lines[at + 1..])));
            }
            for (start, status) in [("FAIL: ", TestStatus::Failed), ("ERROR: ", TestStatus::Error)]
            {
                let named =
                    line.strip_prefix(start).and_then(|name| name.strip_prefix(id.as_str()));
                if named.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) {
                    statuses.push(status);
                }
            }
        }
        reading.tests.insert(id.clone(), worst(&statuses));
    }
    reading
}

/// The result at the end of a test's line, or of what it printed up to the next test's.
fn ending(rest: &str, below: &[&str]) -> TestStatus {
    for line in std::iter::once(&rest).chain(below.iter().take_while(|line| !is_next(line))) {
        let line = line.trim();
        if line.starts_with("skipped") {
            return TestStatus::Skipped;
        }
        match line.to_lowercase().as_str() {
            "ok" => return TestStatus::Passed,
            "fail" => return TestStatus::Failed,
            "error" => return TestStatus::Error,
            "expected failure" => return TestStatus::Xfailed,
            "unexpected success" => return TestStatus::Xpassed,
            _ => {}
        }
    }
    TestStatus::Missing
}

fn is_next(line: &str) -> bool {
    line.contains(" ...") || line.starts_with("=====")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_behind_what_a_test_prints() {
        let log = "test_a (m.C) ... noise\nSystem check identified no issues.\nok\n\
                   test_b (m.C) ... skipped 'x ... ok'\ntest_c (m.C) ... FAIL\n\
                   A sentence. ... ok\n=====\nFAIL: test_c (m.C)\nRan 4 tests in 0.1s\n\nFAILED (failures=1)\n";
        let wanted: Vec<String> =
            ["test_a (m.C)", "test_b (m.C)", "test_c (m.C)", "A sentence.", "test_d (m.C)"]
                .map(String::from)
                .into();
        let reading = read(log, &wanted);
        let of = |id: &str| reading.tests[id];
        assert_eq!(of("test_a (m.C)"), TestStatus::Passed);
        assert_eq!(of("test_b (m.C)"), TestStatus::Skipped);
        assert_eq!(of("test_c (m.C)"), TestStatus::Failed);
        assert_eq!(of("A sentence."), TestStatus::Passed);
        assert_eq!(of("test_d (m.C)"), TestStatus::Missing);
        assert!(reading.ended);
    }
}
