//! Reads the output of sympy's `bin/test --verbose`. Names don't contain the file, so tests of the
//! same name share one status.

use std::sync::LazyLock;

use proctor_types::TestStatus;
use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::{LogReading, agreement::RunCounts, worst_status},
};

static END_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^=+ tests finished: (\d+ .*)$"));
static COUNT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\d+) (passed|failed|exceptions)\b"));
/// The heading of a failure: `____ sympy/core/tests/test_basic.py:test_name ____`.
static HEADING_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^_* *\S*\.py(?::\S+)? *_*$"));

pub(super) fn matches_format(log: &str) -> bool {
    log.lines().any(|line| line.starts_with("==") && line.contains(" test process starts "))
}

pub(super) fn read(log: &str, expected_ids: &[String], exit_status: Option<i64>) -> LogReading {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let mut reading = LogReading::default();
    for id in expected_ids {
        let mut statuses = Vec::new();
        for line in &lines {
            let mark = line.strip_prefix(id.as_str()).and_then(|rest| rest.strip_prefix(' '));
            statuses.extend(mark.and_then(parse_status));
            let heading = line.trim_matches('_').trim();
            if line.starts_with("__") && heading.rsplit(':').next() == Some(id.as_str()) {
                statuses.push(TestStatus::Failed);
            }
        }
        reading.tests.insert(id.clone(), worst_status(&statuses));
    }
    let mut account = RunCounts { exit_status, ..RunCounts::default() };
    let (mut marks, mut headings, mut rules) = (0, 0, 0);
    for line in &lines {
        if let Some(found) = END_PATTERN.captures(line) {
            reading.is_complete = true;
            let (passed, bad) = parse_counts(&found[1]);
            account.reported_success = Some(bad == 0);
            account.runner_failure_count = Some(account.runner_failure_count.unwrap_or(0) + bad);
            account.max_passed = Some(account.max_passed.unwrap_or(0) + passed);
            continue;
        }
        let mark = line.split_once(' ').filter(|(name, _)| name.starts_with("test_"));
        match mark.and_then(|(_, mark)| parse_status(mark)) {
            Some(TestStatus::Passed) => account.passed_count += 1,
            Some(TestStatus::Failed | TestStatus::Error) => marks += 1,
            _ => {}
        }
        if line.starts_with("__") && line.ends_with("__") {
            // sympy prints a line of underscores above each heading.
            if line.bytes().all(|byte| byte == b'_') {
                rules += 1;
            } else if HEADING_PATTERN.is_match(line) {
                headings += 1;
            }
        }
    }
    account.min_shown_failures = marks;
    // A heading that is wider than the terminal has no such lines, so use the largest count.
    account.max_shown_failures = marks.max(headings).max(rules);
    reading.doubts = account.disagreements();
    reading
}

/// Returns the number of passed tests, and of failures and exceptions, from the last line.
fn parse_counts(totals: &str) -> (usize, usize) {
    let (mut passed, mut bad) = (0, 0);
    for found in COUNT_PATTERN.captures_iter(totals) {
        let count: usize = found[1].parse().unwrap_or(usize::MAX);
        match &found[2] {
            // "1 expected to fail but passed" does not match, because it has no number before the word.
            "passed" => passed = count,
            _ => bad = count.saturating_add(bad),
        }
    }
    (passed, bad)
}

fn parse_status(status_mark: &str) -> Option<TestStatus> {
    // After the last test of a file, the same line also contains the file's result.
    let mark = status_mark.trim();
    let mark = ["[OK]", "[FAIL]"].iter().find_map(|end| mark.strip_suffix(end)).unwrap_or(mark);
    match mark.trim() {
        "ok" => Some(TestStatus::Passed),
        "F" => Some(TestStatus::Failed),
        "E" => Some(TestStatus::Error),
        "f" => Some(TestStatus::Xfailed),
        "X" => Some(TestStatus::Xpassed),
        "s" | "w" => Some(TestStatus::Skipped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn read_gives_tests_with_the_same_name_the_worst_status() {
        let log = "==== test process starts ====\na.py[1]\ntest_x ok\nb.py[1]\ntest_x E\ntest_y ok\n\
                   ==== tests finished: 2 passed, 1 exceptions, ====\n";
        let reading = read(log, &expected_ids(&["test_x", "test_y"]), None);
        assert_eq!(reading.tests["test_x"], TestStatus::Error);
        assert_eq!(reading.tests["test_y"], TestStatus::Passed);
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
    }

    #[test]
    fn read_ignores_the_file_result_after_the_last_test() {
        let log = "==== test process starts ====\na.py[2]\ntest_x ok\n\
                   test_y ok                                   [OK]\n\
                   ==== tests finished: 2 passed, in 0.52 seconds ====\n";
        let reading = read(log, &expected_ids(&["test_y"]), Some(0));
        assert_eq!(reading.tests["test_y"], TestStatus::Passed);
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
    }

    #[test]
    fn read_flags_inconsistent_runs() {
        let run = |lines: &str, totals: &str, exit: i64| {
            let log = format!(
                "==== test process starts ====\na.py[1]\n{lines}\n==== tests finished: {totals}, in 0.5 seconds ====\n"
            );
            read(&log, &expected_ids(&["test_x"]), Some(exit)).doubts
        };
        let failure = "test_x ok\ntest_y F\n____\n____ a.py:test_y ____\nTraceback";
        assert_eq!(run("test_x ok", "1 passed", 0), Vec::<String>::new());
        assert_eq!(run(failure, "1 passed, 1 failed", 1), Vec::<String>::new());
        for doubted in [
            run("test_x ok", "1 passed", 139),
            run("test_x ok", "1 passed", 1),
            run(failure, "1 passed, 1 failed", 0),
            run(failure, "2 passed", 0),
            run("test_x ok", "1 passed, 1 exceptions", 1),
            run("test_x ok\ntest_y ok", "1 passed", 0),
        ] {
            assert!(!doubted.is_empty());
        }
    }
}
