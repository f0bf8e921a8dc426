//! Reads Rust test output: libtest as text and as JSON, and cargo-nextest.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_types::TestStatus;
use regex::Regex;
use serde_json::Value;

use super::{
    content::Report,
    json::{count_field, json_lines, str_field},
};
use crate::{parsers::text::pattern, reader::agreement::RunCounts};

/// cargo prints the name of a binary before its tests, on standard error.
static BINARY_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(?:Running (?:unittests )?(?:\S+ )?\(?(?:\S*/)?([^\s/()`]+?)(?:-[0-9a-f]{16})?(?:\.exe)?\)?|Doc-tests (\S+))$",
    )
});
static SUITE_START_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^running (\d+) tests?$"));
static TEST_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^test (.+?)(?: - should panic)? \.\.\. ?(.*)$"));
static RESULT_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed(?:; (\d+) ignored)?")
});
/// `PASS [   0.005s] (1/9) crate::binary path::to::test`.
static NEXTEST_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(?:TRY (\d+) )?([A-Z][A-Z -]*?)(?: \d+/\d+)? \[[ >\d.]*s? *\](?: \([ \d/─-]+\))? +(\S+) +(\S.*)$",
    )
});
static SUMMARY_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*Summary \[[^\]]*\] +(?:\d+/)?(\d+) tests? run: (\d+) passed(.*)$")
});
static FAILURE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(\d+) (?:failed|timed out|exec failed)"));

pub(super) fn matches_format(log: &str) -> bool {
    let has = |pattern: &Regex| log.lines().any(|line| pattern.is_match(line));
    has(&SUITE_START_PATTERN) && (has(&RESULT_PATTERN) || has(&TEST_PATTERN))
        || has(&SUMMARY_PATTERN)
        || log.lines().any(|line| parse_nextest_line(line).is_some())
        || json_lines(log).take(100).any(|value| is_event(&value))
}

fn is_event(value: &Value) -> bool {
    let kind = str_field(value, "type");
    let known = kind.is_some_and(|kind| matches!(kind, "suite" | "test" | "bench"));
    known && value.get("event").is_some_and(Value::is_string)
}

pub(super) fn read(log: &str) -> Report {
    let mut reader = LibtestReader::default();
    for line in log.lines() {
        reader.read_line(line);
    }
    reader.into_report()
}

/// The counts of one binary's tests that were read so far.
#[derive(Default)]
struct Suite {
    announced_count: usize,
    passed_count: usize,
    failed_count: usize,
    result_count: usize,
}

#[derive(Default)]
struct LibtestReader {
    report: Report,
    /// The binary that contains the next tests, if cargo printed its name.
    binary: Option<String>,
    suite: Option<Suite>,
    /// A test whose status is on a later line. If output is not captured, the test's output is
    /// printed before the status.
    pending_test: Option<String>,
    /// Whether the current line is in the list of failures, which quotes the output of failed
    /// tests.
    is_in_failures: bool,
    /// The last attempt of each test that nextest reran.
    rerun_statuses: BTreeMap<String, TestStatus>,
    end_count: usize,
}

impl LibtestReader {
    fn test_id(&self, test: &str) -> String {
        match &self.binary {
            Some(binary) => format!("{binary}::{test}"),
            None => test.to_owned(),
        }
    }

    fn read_line(&mut self, line: &str) {
        let is_last = |result: &str| !self.is_in_failures || result == "FAILED";
        if let Some(found) = RESULT_PATTERN.captures(line).filter(|found| is_last(&found[1])) {
            self.read_result(&found);
        } else if self.is_in_failures {
            // This section quotes the output of failed tests and repeats their names.
        } else if let Some(found) = SUITE_START_PATTERN.captures(line) {
            self.close_suite();
            let announced = found[1].parse().unwrap_or(usize::MAX);
            self.suite = Some(Suite { announced_count: announced, ..Suite::default() });
        } else if line == "failures:" {
            self.is_in_failures = true;
        } else if let Some(found) = TEST_PATTERN.captures(line).filter(|_| self.suite.is_some()) {
            let test = found[1].to_owned();
            match parse_status(&found[2]) {
                Some(status) => self.add_result(&test, status),
                None => self.pending_test = Some(test),
            }
        } else if let Some(status) = parse_status(line).filter(|_| self.pending_test.is_some()) {
            if let Some(test) = self.pending_test.take() {
                self.add_result(&test, status);
            }
        } else if let Some(found) = BINARY_PATTERN.captures(line) {
            self.close_suite();
            let name = found.get(1).or_else(|| found.get(2));
            self.binary = name.map(|name| name.as_str().to_owned());
        } else if let Some(found) = parse_nextest_line(line) {
            if found.is_rerun {
                self.rerun_statuses.insert(found.id, found.status);
            } else {
                self.report.add(found.id, found.status);
            }
        } else if let Some(found) = SUMMARY_PATTERN.captures(line) {
            self.read_summary(&found);
        } else if line.trim_start().starts_with('{')
            && let Ok(event) = serde_json::from_str::<Value>(line)
            && is_event(&event)
        {
            self.read_event(&event);
        }
    }

    fn add_result(&mut self, test: &str, status: TestStatus) {
        if let Some(suite) = &mut self.suite {
            suite.result_count += 1;
            suite.passed_count += usize::from(status == TestStatus::Passed);
            suite.failed_count += usize::from(status == TestStatus::Failed);
        }
        let id = self.test_id(test);
        self.report.add(id, status);
    }

    /// Reads `test result: ...`, which ends a binary's tests.
    fn read_result(&mut self, captures: &regex::Captures<'_>) {
        self.is_in_failures = false;
        self.pending_test = None;
        let Some(suite) = self.suite.take() else { return };
        self.end_count += 1;
        let count =
            |at: usize| captures.get(at).and_then(|count| count.as_str().parse::<usize>().ok());
        self.report.add_disagreements(&RunCounts {
            runner_failure_count: count(3),
            min_shown_failures: suite.failed_count,
            max_shown_failures: suite.failed_count,
            max_passed: count(2),
            passed_count: suite.passed_count,
            ..RunCounts::default()
        });
    }

    /// Ends a binary's tests. If the binary has no result, the run was cut off.
    fn close_suite(&mut self) {
        self.pending_test = None;
        if let Some(suite) = self.suite.take() {
            let what = format!(
                "tests announced: {}, finished: {}",
                suite.announced_count, suite.result_count
            );
            self.report.doubts.push(format!("a run has no result; {what}"));
        }
    }

    fn read_summary(&mut self, captures: &regex::Captures<'_>) {
        self.end_count += 1;
        self.add_rerun_statuses();
        let failed = FAILURE_PATTERN
            .captures_iter(&captures[3])
            .filter_map(|count| count[1].parse::<usize>().ok())
            .fold(0, usize::saturating_add);
        let shown = self.report.failure_count();
        self.report.add_disagreements(&RunCounts {
            runner_failure_count: Some(failed),
            min_shown_failures: shown,
            max_shown_failures: shown,
            ..RunCounts::default()
        });
    }

    fn add_rerun_statuses(&mut self) {
        for (id, status) in std::mem::take(&mut self.rerun_statuses) {
            self.report.add(id, status);
        }
    }

    fn read_event(&mut self, event: &Value) {
        let what = str_field(event, "event").unwrap_or_default();
        match str_field(event, "type") {
            Some("suite") if what == "started" => {
                self.close_suite();
                let announced = count_field(event, "test_count").unwrap_or_default();
                self.suite = Some(Suite { announced_count: announced, ..Suite::default() });
            }
            Some("suite") => {
                let Some(suite) = self.suite.take() else { return };
                self.end_count += 1;
                self.report.add_disagreements(&RunCounts {
                    runner_failure_count: count_field(event, "failed"),
                    min_shown_failures: suite.failed_count,
                    max_shown_failures: suite.failed_count,
                    max_passed: count_field(event, "passed"),
                    passed_count: suite.passed_count,
                    ..RunCounts::default()
                });
            }
            Some("test") => {
                let (Some(name), Some(status)) = (str_field(event, "name"), event_status(what))
                else {
                    return;
                };
                let name = name.strip_suffix(" - should panic").unwrap_or(name);
                // nextest writes `crate::binary$path::to::test`, and appends `#2` for a second
                // attempt.
                match name.split_once('$') {
                    Some((binary, test)) => {
                        let outer = self.binary.replace(binary.to_owned());
                        self.add_result(strip_rerun_number(test), status);
                        self.binary = outer;
                    }
                    None => self.add_result(name, status),
                }
            }
            _ => {}
        }
    }

    fn into_report(mut self) -> Report {
        let is_open = self.suite.is_some();
        self.close_suite();
        self.add_rerun_statuses();
        self.report.is_complete = self.end_count > 0 && !is_open;
        self.report
    }
}

fn strip_rerun_number(test: &str) -> &str {
    match test.rsplit_once('#') {
        Some((name, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            name
        }
        _ => test,
    }
}

fn parse_status(word: &str) -> Option<TestStatus> {
    // With times, the status looks like `ok <0.003s>`.
    let word = word.trim();
    let word = word.split_once(" <").map_or(word, |(word, _)| word);
    match word {
        "ok" => Some(TestStatus::Passed),
        "FAILED" | "failed" => Some(TestStatus::Failed),
        "failed (allowed)" => Some(TestStatus::Xfailed),
        word if word == "ignored" || word.starts_with("ignored, ") => Some(TestStatus::Skipped),
        _ => None,
    }
}

fn event_status(event: &str) -> Option<TestStatus> {
    match event {
        "ok" => Some(TestStatus::Passed),
        "failed" => Some(TestStatus::Failed),
        "ignored" => Some(TestStatus::Skipped),
        "allowed_failure" => Some(TestStatus::Xfailed),
        // `started`, or `timeout`, which is only a warning about a slow test.
        _ => None,
    }
}

struct NextestLine {
    id: String,
    status: TestStatus,
    /// Whether the test is rerun if it fails. The last attempt counts.
    is_rerun: bool,
}

fn parse_nextest_line(line: &str) -> Option<NextestLine> {
    let found = NEXTEST_PATTERN.captures(line)?;
    let is_try = found.get(1).is_some();
    let status = match &found[2] {
        "PASS" if is_try => TestStatus::Flaky,
        "PASS" | "LEAK" => TestStatus::Passed,
        "FLAKY" => TestStatus::Flaky,
        "FAIL" | "TIMEOUT" | "ABORT" | "XFAIL" | "LEAK FAIL" => TestStatus::Failed,
        "SKIP" => TestStatus::Skipped,
        word if word.starts_with("SIG") => TestStatus::Failed,
        // `SLOW`, `START`, `TERMINATING`: the test is still running.
        _ => return None,
    };
    Some(NextestLine {
        id: format!("{}::{}", &found[3], found[4].trim_end()),
        status,
        is_rerun: is_try,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use TestStatus::{Failed, Flaky, Passed, Skipped};

    fn assert_tests(report: &Report, expected: &[(&str, TestStatus)]) {
        let found: Vec<(&str, TestStatus)> =
            report.tests.iter().map(|(id, status)| (id.as_str(), *status)).collect();
        assert_eq!(found, expected);
    }

    const TEXT: &str = "\nrunning 5 tests\n\
        test tests::adds ... ok\n\
        test tests::later ... ignored, not yet\n\
        test tests::panics - should panic ... ok\n\
        test tests::bad ... FAILED\n\
        test tests::timed ... ok <0.001s>\n\nfailures:\n\n---- tests::bad stdout ----\n\
        test tests::fake ... ok\nthread 'tests::bad' panicked at src/lib.rs:9:9:\n\n\nfailures:\n    tests::bad\n\n\
        test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    #[test]
    fn read_ignores_the_output_of_failed_tests() {
        let report = read(TEXT);
        assert_tests(
            &report,
            &[
                ("tests::adds", Passed),
                ("tests::bad", Failed),
                ("tests::later", Skipped),
                ("tests::panics", Passed),
                ("tests::timed", Passed),
            ],
        );
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
        let forged = TEXT.replace("3 passed", "2 passed");
        assert_eq!(read(&forged).doubts, ["passed tests shown: 3, counted by the runner: 2"]);
    }

    #[test]
    fn test_id_includes_the_binary_if_cargo_names_it() {
        let run = |test: &str| {
            format!(
                "running 1 test\ntest {test} ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n\n"
            )
        };
        let log = format!(
            "   Compiling calc v0.1.0 (/testbed)\n    Finished `test` profile [unoptimized] target(s) in 0.5s\n     \
             Running unittests src/lib.rs (target/debug/deps/calc-0123456789abcdef)\n\n{}     \
             Running tests/whole.rs (target/debug/deps/whole-fedcba9876543210)\n\n{}     \
             Running target/debug/deps/old-0123456789abcdef\n\n{}   Doc-tests calc\n\n{}",
            run("tests::a"),
            run("b"),
            run("c"),
            run("src/lib.rs - add (line 3)")
        );
        let report = read(&log);
        assert_tests(
            &report,
            &[
                ("calc::src/lib.rs - add (line 3)", Passed),
                ("calc::tests::a", Passed),
                ("old::c", Passed),
                ("whole::b", Passed),
            ],
        );
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
        assert_eq!(report.resolve_id("tests::a"), Some("calc::tests::a"));
    }

    #[test]
    fn status_may_follow_test_output() {
        let log = "running 2 tests\ntest a ... hello\nok\ntest b ... \nmore\nFAILED\n\nfailures:\n    b\n\n\
                   test result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let report = read(log);
        assert_tests(&report, &[("a", Passed), ("b", Failed)]);
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
    }

    #[test]
    fn truncated_run_is_incomplete() {
        let whole =
            "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        let torn = "running 2 tests\ntest b ... ok\n";
        assert!(
            read(whole).is_complete
                && !read(torn).is_complete
                && !read("error: no such target\n").is_complete
        );
        assert!(!read(&format!("{whole}{torn}")).is_complete);
        let first = read(&format!("{torn}{whole}"));
        assert!(
            first.is_complete
                && first.doubts == ["a run has no result; tests announced: 2, finished: 1"]
        );
    }

    #[test]
    fn read_parses_libtest_and_nextest_json() {
        let log = r#"{ "type": "suite", "event": "started", "test_count": 3 }
            { "type": "test", "event": "started", "name": "tests::a" }
            { "type": "test", "name": "tests::a", "event": "ok" }
            { "type": "test", "name": "tests::b", "event": "failed", "stdout": "x" }
            { "type": "test", "name": "tests::c", "event": "ignored" }
            { "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 1 }"#;
        let report = read(log);
        assert_tests(&report, &[("tests::a", Passed), ("tests::b", Failed), ("tests::c", Skipped)]);
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
        let nextest = log.replace("\"tests::", "\"calc::calc$tests::").replace("::b\"", "::b#2\"");
        assert_tests(
            &read(&nextest),
            &[
                ("calc::calc::tests::a", Passed),
                ("calc::calc::tests::b", Failed),
                ("calc::calc::tests::c", Skipped),
            ],
        );
    }

    #[test]
    fn read_parses_nextest_text() {
        let log = "    Starting 6 tests across 2 binaries\n        \
            PASS [   0.004s] calc tests::a\n        \
            FAIL [   0.004s] (2/5) calc::whole b\n  \
            TRY 1 FAIL [   0.003s] calc tests::flaky\n  \
            TRY 2 PASS [   0.003s] calc tests::flaky\n     \
            TRY 1 FAIL [   0.003s] calc tests::never\n  \
            TRY 2 FAIL [   0.003s] calc tests::never\n     \
            SIGABRT [   0.100s] calc tests::dies\n        \
            SKIP [         ] calc tests::later\n------------\n     \
            Summary [   0.015s] 5 tests run: 2 passed (1 flaky), 3 failed, 1 skipped\n       \
            TRY 2 FAIL [   0.003s] calc tests::never\n       \
            FLAKY 2/2 [   0.003s] calc tests::flaky\n        FAIL [   0.004s] (2/5) calc::whole b\n";
        let report = read(log);
        assert_tests(
            &report,
            &[
                ("calc::tests::a", Passed),
                ("calc::tests::dies", Failed),
                ("calc::tests::flaky", Flaky),
                ("calc::tests::later", Skipped),
                ("calc::tests::never", Failed),
                ("calc::whole::b", Failed),
            ],
        );
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
    }
}
