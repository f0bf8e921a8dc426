//! Summarizes why tests failed, from a verdict and the sections of the grading log.

use std::collections::BTreeMap;

use proctor_types::{Verdict, count_with_noun};

use crate::html::TestLine;

/// Maximum number of exception classes in a summary.
const MAX_CLASSES: usize = 3;
/// Maximum number of characters of an error message.
const MAX_MESSAGE_CHARS: usize = 200;

/// Says how many tests failed, with which exceptions. Empty if the task is resolved.
pub fn grading_summary(verdict: &Verdict) -> String {
    let groups = [&verdict.fail_to_pass, &verdict.pass_to_pass];
    let failed: usize = groups.iter().map(|group| group.failed.len()).sum();
    let passed: usize = groups.iter().map(|group| group.passed.len()).sum();
    if verdict.resolved || failed + passed == 0 {
        return String::new();
    }
    if failed == 0 {
        return format!("all {} passed", count_with_noun(passed, "test"));
    }
    let mut classes: Vec<(&String, &u64)> = verdict.exceptions.iter().collect();
    classes.sort_by(|a, b| b.1.cmp(a.1));
    let named: Vec<&str> =
        classes.iter().take(MAX_CLASSES).map(|(name, _)| name.as_str()).collect();
    let with = match named.is_empty() {
        true => String::new(),
        false => format!(" with {}", named.join(", ")),
    };
    format!("{failed} of {} failed{with}", count_with_noun(failed + passed, "test"))
}

/// Returns the most frequent error of the failed tests, with the place that raised it. Empty if no
/// log shows an error.
pub fn most_frequent_error(tests: &[TestLine]) -> String {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for test in tests.iter().filter(|test| !test.passed) {
        let Some((message, place)) = parse_error(&test.log) else { continue };
        let file = test.id.split("::").next().unwrap_or_default();
        let place = match place {
            Some((path, line)) if path == file => format!(", in the test file {path}, line {line}"),
            Some((path, line)) => format!(", in {path}, line {line}"),
            None => String::new(),
        };
        *counts.entry((message.to_owned(), place)).or_default() += 1;
    }
    // Of equally frequent errors, take the first one in alphabetical order.
    let Some(((message, place), count)) = counts.into_iter().rev().max_by_key(|(_, count)| *count)
    else {
        return String::new();
    };
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    let tests = count_with_noun(count, "test");
    format!("Most frequent error ({tests}{place}): {message}")
}

/// Returns the error in a section of pytest's output, and the path and line that raised it.
fn parse_error(log: &str) -> Option<(&str, Option<(&str, &str)>)> {
    let message = log.lines().find_map(|line| Some(line.strip_prefix("E ")?.trim()))?;
    let place = log.lines().rev().find_map(parse_place);
    Some((message, place))
}

/// Parses the start of a line such as `a.py:3: in <module>` or `a.py:3: NameError`.
fn parse_place(line: &str) -> Option<(&str, &str)> {
    let (path, rest) = line.split_once(':')?;
    let (number, _) = rest.split_once(": ")?;
    let is_place = !path.is_empty()
        && !path.contains(char::is_whitespace)
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit());
    is_place.then_some((path, number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn test_line(id: &str, log: &str) -> TestLine {
        TestLine { id: id.to_owned(), log: log.to_owned(), ..TestLine::default() }
    }

    #[test]
    fn error_says_whether_the_test_file_raised_it() {
        let missing = "tests/t.py:1: in <module>\n    from a import f\n\
                       E   ImportError: cannot import name 'f' from 'a'";
        let undefined =
            "    return x\nE   NameError: name 'x' is not defined\n\na/b.py:12: NameError";
        for (logs, expected) in [
            (
                [missing, missing, undefined],
                "Most frequent error (2 tests, in the test file tests/t.py, line 1): \
                 ImportError: cannot import name 'f' from 'a'",
            ),
            (
                [undefined, undefined, ""],
                "Most frequent error (2 tests, in a/b.py, line 12): \
                 NameError: name 'x' is not defined",
            ),
            (["E   assert 1 == 2", "", ""], "Most frequent error (1 test): assert 1 == 2"),
            (["", "", "boom"], ""),
        ] {
            let tests = logs.map(|log| test_line("tests/t.py::test_a", log));
            assert_eq!(most_frequent_error(&tests), expected);
        }
        let passed = TestLine { passed: true, ..test_line("t.py::a", "E   boom") };
        assert_eq!(most_frequent_error(&[passed]), "");
    }

    #[test]
    fn summary_counts_failed_tests_and_names_exceptions() {
        let summary = |resolved: bool, failed: &[&str], exceptions: serde_json::Value| {
            let verdict: Verdict = serde_json::from_value(json!({
                "schema_version": 1, "task": "t", "resolved": resolved, "passed_rate": 0.5,
                "fail_to_pass": { "passed": ["a", "b"], "failed": failed },
                "pass_to_pass": { "passed": [], "failed": [] }, "tests": {}, "policies": {},
                "integrity": "clean", "evidence": [], "exceptions": exceptions,
            }))
            .unwrap();
            grading_summary(&verdict)
        };
        let exceptions = json!({ "AssertionError": 1, "NameError": 3 });
        assert_eq!(
            summary(false, &["c", "d"], exceptions),
            "2 of 4 tests failed with NameError, AssertionError"
        );
        assert_eq!(summary(false, &["c"], json!({})), "1 of 3 tests failed");
        assert_eq!(summary(false, &[], json!({})), "all 2 tests passed");
        assert_eq!(summary(true, &[], json!({})), "");
    }
}
