//! Reads unittest's verbose output, and Django's, which has additional text between the lines.

use std::sync::LazyLock;

use proctor_types::TestStatus;
use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::{LogReading, agreement::RunCounts, worst_status},
};

static RAN_LINE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^Ran (\d+) tests? in [\d.]+s$"));
static RESULT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(OK|FAILED|NO TESTS RAN)(?: \(([a-z0-9=, ]+)\))?$"));
static COUNT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|, )(failures|errors)=(\d+)"));
static METHOD_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\w+ \(\S+\)$"));

pub(super) fn matches_format(log: &str) -> bool {
    log.lines().any(|line| RAN_LINE.is_match(line))
}

/// A failure and the lines that name its test. The second line is the first line of the test's
/// docstring.
struct Failure<'a> {
    status: TestStatus,
    name_lines: Vec<&'a str>,
    /// Whether the runner printed this failure. The runner prints a line of `=` before each
    /// failure.
    is_from_runner: bool,
}

impl Failure<'_> {
    /// Whether this failure belongs to the test called `name`. The failure of a subtest names both the test and the
    /// subtest.
    fn belongs_to(&self, name: &str) -> bool {
        self.name_lines.iter().any(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }
}

pub(super) fn read(log: &str, expected_ids: &[String], exit_status: Option<i64>) -> LogReading {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let failures = find_failures(&lines);
    let mut reading = LogReading::default();
    for id in expected_ids {
        let mut statuses = Vec::new();
        let mut names = vec![id.as_str()];
        for (at, line) in lines.iter().enumerate() {
            let Some(rest) = line.strip_prefix(id.as_str()) else { continue };
            let above = at.checked_sub(1).map(|above| lines[above]);
            if let Some(rest) = rest.strip_prefix(" ...") {
                statuses.push(final_status(rest, &lines[at + 1..]));
                // If the id is a docstring, the line above it names the method.
                names.extend(above.filter(|above| METHOD_PATTERN.is_match(above)));
            } else if rest.is_empty()
                && METHOD_PATTERN.is_match(line)
                && let Some((_, rest)) =
                    lines.get(at + 1).and_then(|below| below.split_once(" ..."))
            {
                statuses.push(final_status(rest, &lines[at + 2..]));
            }
        }
        let of_id = failures.iter().filter(|one| names.iter().any(|name| one.belongs_to(name)));
        statuses.extend(of_id.map(|failure| failure.status));
        reading.tests.insert(id.clone(), worst_status(&statuses));
    }
    let passes = reading.tests.values().filter(|status| **status == TestStatus::Passed);
    let mut account =
        RunCounts { exit_status, passed_count: passes.count(), ..RunCounts::default() };
    let ends: Vec<usize> = (0..lines.len()).filter(|at| RAN_LINE.is_match(lines[*at])).collect();
    for (number, start) in ends.iter().enumerate() {
        let end = ends.get(number + 1).copied().unwrap_or(lines.len());
        let results =
            || lines[start + 1..end].iter().filter_map(|line| RESULT_PATTERN.captures(line));
        // If there are two results, the worse one counts.
        let result = results().find(|found| &found[1] == "FAILED").or_else(|| results().next());
        reading.is_complete = result.is_some();
        let Some(result) = result else {
            reading.doubts.push("a run has no result".into());
            continue;
        };
        let ran: usize =
            RAN_LINE.captures(lines[*start]).map_or(0, |ran| ran[1].parse().unwrap_or(0));
        account.max_passed = Some(account.max_passed.unwrap_or(0).saturating_add(ran));
        let counts = result.get(2).map_or("", |counts| counts.as_str());
        let bad =
            COUNT_PATTERN.captures_iter(counts).map(|count| count[2].parse().unwrap_or(usize::MAX));
        let bad = bad.fold(account.runner_failure_count.unwrap_or(0), usize::saturating_add);
        account.runner_failure_count = Some(bad);
        account.reported_success = Some(&result[1] != "FAILED");
    }
    let shown = failures.iter().filter(|failure| failure.is_from_runner).count();
    (account.min_shown_failures, account.max_shown_failures) = (shown, shown);
    reading.doubts.extend(account.disagreements());
    reading
}

fn find_failures<'a>(lines: &[&'a str]) -> Vec<Failure<'a>> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let (name, status) = if let Some(name) = line.strip_prefix("FAIL: ") {
            (name, TestStatus::Failed)
        } else if let Some(name) = line.strip_prefix("ERROR: ") {
            (name, TestStatus::Error)
        } else {
            continue;
        };
        let is_from_runner = at > 0 && is_separator(lines[at - 1], b'=');
        let mut names = vec![name];
        if is_from_runner {
            // The description ends at a line of `-`.
            let below =
                lines[at + 1..].iter().copied().take_while(|line| !is_separator(line, b'-'));
            names.extend(below.take(1).filter(|line| !line.is_empty()));
        }
        found.push(Failure { status, name_lines: names, is_from_runner });
    }
    found
}

fn is_separator(line: &str, character: u8) -> bool {
    line.len() >= 4 && line.bytes().all(|byte| byte == character)
}

/// Returns the result at the end of a test's line, or at the end of the output before the next
/// test's line. The last result counts, because a test may print `ok` before the runner prints its
/// result.
fn final_status(rest: &str, following_lines: &[&str]) -> TestStatus {
    let lines = std::iter::once(rest)
        .chain(following_lines.iter().copied().take_while(|line| !ends_test_output(line)));
    lines.filter_map(parse_status).last().unwrap_or(TestStatus::Missing)
}

fn parse_status(line: &str) -> Option<TestStatus> {
    let line = line.trim();
    if line.starts_with("skipped") {
        return Some(TestStatus::Skipped);
    }
    match line.to_lowercase().as_str() {
        "ok" => Some(TestStatus::Passed),
        "fail" => Some(TestStatus::Failed),
        "error" => Some(TestStatus::Error),
        "expected failure" => Some(TestStatus::Xfailed),
        "unexpected success" => Some(TestStatus::Xpassed),
        _ => None,
    }
}

fn ends_test_output(line: &str) -> bool {
    line.contains(" ...")
        || is_separator(line, b'=')
        || is_separator(line, b'-')
        || RAN_LINE.is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn read_finds_results_after_test_output() {
        let log = "test_a (m.C) ... noise\nSystem check identified no issues.\nok\n\
                   test_b (m.C) ... skipped 'x ... ok'\ntest_c (m.C) ... FAIL\n\
                   A sentence. ... ok\n=====\nFAIL: test_c (m.C)\nRan 4 tests in 0.1s\n\nFAILED (failures=1)\n";
        let ids = ["test_a (m.C)", "test_b (m.C)", "test_c (m.C)", "A sentence.", "test_d (m.C)"];
        let reading = read(log, &expected_ids(&ids), None);
        let of = |id: &str| reading.tests[id];
        assert_eq!(of("test_a (m.C)"), TestStatus::Passed);
        assert_eq!(of("test_b (m.C)"), TestStatus::Skipped);
        assert_eq!(of("test_c (m.C)"), TestStatus::Failed);
        assert_eq!(of("A sentence."), TestStatus::Passed);
        assert_eq!(of("test_d (m.C)"), TestStatus::Missing);
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
    }

    #[test]
    fn test_that_prints_ok_and_then_fails_is_failed() {
        // The id is a docstring, but the list of failures names only the method.
        for heading in ["test_a (m.C)\nDoc a.", "test_a (m.C)", "test_a (m.C) (i=1)\nDoc a."] {
            for shown in ["noise\nok\nFAIL", "ok\nFAIL", "ok"] {
                let log = format!(
                    "test_a (m.C)\nDoc a. ... {shown}\ntest_b (m.C) ... ok\n\n{rule}\nFAIL: {heading}\n\
                     {line}\nTraceback\n\n{line}\nRan 2 tests in 0.1s\n\nFAILED (failures=1)\n",
                    rule = "=".repeat(70),
                    line = "-".repeat(70)
                );
                let reading = read(&log, &expected_ids(&["Doc a.", "test_b (m.C)"]), Some(1));
                assert_eq!(reading.tests["Doc a."], TestStatus::Failed, "{log}");
                assert_eq!(reading.tests["test_b (m.C)"], TestStatus::Passed, "{log}");
                assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
            }
        }
    }

    #[test]
    fn result_may_follow_a_docstring_on_the_next_line() {
        let log = "test_a (m.C)\nDoc a. ... ok\n\nRan 1 test in 0.1s\n\nOK\n";
        let reading = read(log, &expected_ids(&["test_a (m.C)"]), Some(0));
        assert_eq!(reading.tests["test_a (m.C)"], TestStatus::Passed);
        assert!(reading.doubts.is_empty(), "{:?}", reading.doubts);
    }

    #[test]
    fn read_flags_inconsistent_runs() {
        let run = |listed: &str, ran: usize, result: &str, exit: i64| {
            let log = format!(
                "test_a (m.C) ... ok\ntest_b (m.C) ... ok\n{listed}\nRan {ran} tests in 0.1s\n\n{result}\n"
            );
            read(&log, &expected_ids(&["test_a (m.C)", "test_b (m.C)"]), Some(exit)).doubts
        };
        let failure = "======\nERROR: tearDownClass (m.C)\n------\nTraceback\n------";
        assert_eq!(run("", 2, "OK", 0), Vec::<String>::new());
        assert_eq!(run("", 2, "OK (skipped=1, expected failures=2)", 0), Vec::<String>::new());
        assert_eq!(run(failure, 2, "FAILED (errors=1)", 1), Vec::<String>::new());
        assert_eq!(run("", 2, "FAILED (unexpected successes=1)", 1), Vec::<String>::new());
        for doubted in [
            run("", 2, "OK", 137),
            run("", 2, "OK", 1),
            run("", 2, "OK", -11),
            run(failure, 2, "FAILED (errors=1)", 0),
            run("", 2, "FAILED (failures=1, errors=2)", 1),
            run(failure, 2, "FAILED (failures=1, errors=2)", 1),
            run(failure, 2, "OK", 0),
            run("", 1, "OK", 0),
            run("", 2, "Killed", 0),
        ] {
            assert!(!doubted.is_empty());
        }
    }

    #[test]
    fn read_adds_up_two_runs_in_one_log() {
        let run = |id: &str| format!("{id} ... ok\n\nRan 1 test in 0.1s\n\nOK\n");
        let ids = expected_ids(&["test_a (m.C)", "test_b (n.C)"]);
        let both = format!("{}{}", run(&ids[0]), run(&ids[1]));
        let reading = read(&both, &ids, Some(0));
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
        assert!(reading.tests.values().all(|status| *status == TestStatus::Passed));
        let cut = format!("{}{} ... ok\nRan 1 test in 0.1s\n\n", run(&ids[0]), ids[1]);
        let reading = read(&cut, &ids, None);
        assert!(!reading.is_complete && !reading.doubts.is_empty());
    }
}
