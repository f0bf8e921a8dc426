//! Reads pytest's output: the short test summary, verbose lines, lines of xdist and subtests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use proctor_types::{TestStatus, file_from_test_id};
use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::{
        LogReading,
        agreement::RunCounts,
        count,
        pytest_session::{Totals, find_first_section, is_heading, last_totals, parse_totals},
        worst_status,
    },
};

const STATUS_WORDS: &str = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN|RETRY";

/// `STATUS name - message` in the summary.
static SUMMARY_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r"^({STATUS_WORDS}) +(.+)$")));
/// A subtest's failure: `[message] (k=v) SUBFAIL name` of the plug-in, or `SUBFAILED[message] (k=v)
/// name` and `name SUBFAILED[message]` of pytest 9. Messages are free text, so the name cannot be
/// extracted reliably.
static SUBTEST_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^| )SUBFAIL(?:ED)?(?:[ \[(]|$)"));
/// `name STATUS [ 50%]`.
static VERBOSE_LINE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"^(.+?) ({STATUS_WORDS})(?: \(.*\))? *(?:\[ *\d+(?:%|/\d+)\])?$"))
});
/// `[gw0] [ 50%] STATUS name`.
static XDIST_LINE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"^\[gw\d+\] (?:\[ *\d+(?:%|/\d+)\] )?({STATUS_WORDS}) (.+?) *$"))
});
/// `file letters`, with a letter for a rerun test.
static RERUN_LETTERS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(\S+\.\w+) [.FEsxXRu,-]*R[.FEsxXRu,-]*(?: *\[ *\d+%\])?$"));

/// The results in a log. A pass counts only in the session's own list of results, but a failure
/// counts wherever it is printed.
#[derive(Default)]
struct LogResults<'a> {
    passes: BTreeMap<String, Vec<TestStatus>>,
    failures: BTreeMap<String, Vec<TestStatus>>,
    /// Lines that report a failed subtest.
    subtest_failures: Vec<&'a str>,
    /// Names of rerun tests.
    reruns: BTreeSet<String>,
    /// Files whose progress letters show that a test was rerun.
    rerun_files: BTreeSet<&'a str>,
    rerun_line_count: usize,
    /// Number of reruns, according to the last lines of all sessions.
    total_rerun_count: usize,
    /// Number of tests that the session's summary lists as passed.
    listed_pass_count: usize,
}

pub(super) fn read(log: &str, expected_ids: &[String], exit_status: Option<i64>) -> LogReading {
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    let mut reading = LogReading::default();
    let mut found = LogResults::default();
    let mut last = None;
    for session in split_sessions(&lines) {
        last = found.add_session(session);
        let Some(totals) = &last else { continue };
        if found.listed_pass_count > totals.count("passed") {
            reading.doubts.push(format!(
                "tests listed as passed: {}, counted in the last line: {}",
                found.listed_pass_count,
                totals.count("passed")
            ));
        }
        found.total_rerun_count += totals.count("rerun") + totals.count("retried");
        reading.doubts.extend(count::disagreements(session, totals));
    }
    for id in expected_ids {
        reading.tests.insert(id.clone(), found.status(id));
    }
    let starts = lines.iter().rposition(|line| is_heading(line, "test session starts"));
    let ends = lines.iter().rposition(|line| parse_totals(line).is_some());
    reading.is_complete = ends.is_some() && ends > starts;
    let account = RunCounts {
        exit_status,
        reported_success: last.as_ref().map(|totals| totals.failure_count() == 0),
        ..RunCounts::default()
    };
    reading.doubts.extend(account.disagreements());
    if last.is_none()
        && exit_status == Some(1)
        && found.failures.is_empty()
        && found.subtest_failures.is_empty()
    {
        reading.doubts.push("the run failed, but its output shows no failure".into());
    }
    reading
}

/// Splits a log into its sessions. A session that a test printed, or that another session's log
/// quotes, stays part of that session. Two sessions are separated only if each matches its own last
/// line.
fn split_sessions<'l, 'a>(lines: &'l [&'a str]) -> Vec<&'l [&'a str]> {
    let mut parts = Vec::new();
    let (mut start, mut ended) = (0, false);
    for (at, line) in lines.iter().enumerate() {
        if ended && is_heading(line, "test session starts") {
            parts.push(&lines[start..at]);
            (start, ended) = (at, false);
        }
        ended = ended || parse_totals(line).is_some();
    }
    // The last session may be truncated.
    let is_cut = !ended && !parts.is_empty();
    parts.push(&lines[start..]);
    if parts.len() == 1 {
        return parts;
    }
    let agrees = |part: &&[&str]| {
        let Some(totals) = last_totals(part) else { return false };
        let mut found = LogResults::default();
        found.add_session(part);
        found.listed_pass_count <= totals.count("passed") && count::is_one_session(part, &totals)
    };
    let whole = if is_cut { &parts[..parts.len() - 1] } else { &parts[..] };
    if whole.iter().all(agrees) { parts } else { vec![lines] }
}

impl<'a> LogResults<'a> {
    /// Adds the lines of one session and returns its totals.
    fn add_session(&mut self, lines: &[&'a str]) -> Option<Totals> {
        self.listed_pass_count = 0;
        let end = lines.iter().rposition(|line| parse_totals(line).is_some());
        let summary = lines.iter().rposition(|line| is_heading(line, "short test summary info"));
        let first_section = find_first_section(lines);
        for (at, line) in lines.iter().enumerate() {
            let in_summary = summary.is_some_and(|from| at > from) && end.is_none_or(|to| at < to);
            let in_progress = first_section.is_none_or(|section| at < section);
            self.add_line(line, in_summary, in_progress);
        }
        parse_totals(lines[end?])
    }

    fn add_line(&mut self, line: &'a str, in_summary: bool, in_progress: bool) {
        if SUBTEST_PATTERN.is_match(line) {
            self.subtest_failures.push(line);
        } else if let Some(found) = SUMMARY_PATTERN.captures(line) {
            let passed = &found[1] == "PASSED";
            self.listed_pass_count += usize::from(in_summary && passed);
            self.add_status(&found[2], &found[1], in_summary);
        } else if let Some(found) = XDIST_LINE.captures(line) {
            self.add_status(&found[2], &found[1], in_progress);
        } else if let Some(found) = VERBOSE_LINE.captures(line) {
            self.add_status(&found[1], &found[2], in_progress);
        } else if in_progress && let Some(found) = RERUN_LETTERS.captures(line) {
            self.rerun_files.extend(found.get(1).map(|file| file.as_str()));
        }
    }

    fn add_status(&mut self, name: &str, word: &str, is_trusted: bool) {
        if matches!(word, "RERUN" | "RETRY") {
            self.reruns.insert(name.to_owned());
            self.rerun_line_count += 1;
            return;
        }
        let status = parse_status(word);
        let list = match status {
            TestStatus::Failed | TestStatus::Error => &mut self.failures,
            _ if is_trusted => &mut self.passes,
            _ => return,
        };
        list.entry(name.to_owned()).or_default().push(status);
    }

    fn status(&self, id: &str) -> TestStatus {
        match self.last_status(id) {
            TestStatus::Passed if self.was_rerun(id) => TestStatus::Flaky,
            status => status,
        }
    }

    /// Returns the status of a rerun test's last attempt.
    fn last_status(&self, id: &str) -> TestStatus {
        // If a file could not be collected, all its tests count as failed.
        let file = file_from_test_id(id);
        let broken = |name: &str| name == file || name.starts_with(&format!("{file} - "));
        let mut exact: Vec<TestStatus> =
            self.matching_statuses(|name| matches_id(name, id)).collect();
        if self.subtest_failures.iter().any(|line| mentions(line, id)) {
            exact.push(TestStatus::Failed);
        }
        if self.failures.keys().any(|name| broken(name)) {
            exact.push(TestStatus::Error);
        }
        if !exact.is_empty() {
            return worst_status(&exact);
        }
        let fits = |name: &str| is_truncated_id(name, id);
        worst_status(&self.matching_statuses(fits).collect::<Vec<_>>())
    }

    fn was_rerun(&self, id: &str) -> bool {
        if self.reruns.iter().any(|name| matches_id(name, id) || is_truncated_id(name, id)) {
            return true;
        }
        // The log shows more reruns than it names tests for. Any test in a file with a rerun letter
        // may have been rerun.
        self.total_rerun_count > self.rerun_line_count
            && (self.rerun_files.is_empty() || self.rerun_files.contains(file_from_test_id(id)))
    }

    fn matching_statuses(
        &self,
        predicate: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = TestStatus> {
        self.failures
            .iter()
            .chain(&self.passes)
            .filter(move |(name, _)| predicate(name))
            .flat_map(|(_, statuses)| statuses.iter().copied())
    }
}

/// Whether this id may be a truncated form of a printed name. Benchmarks truncate ids at a space or
/// inside their brackets. An id that ends with a bracket is always complete.
fn is_truncated_id(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| {
        let is_open = id.contains('[') && !id.ends_with(']');
        rest.starts_with(' ') || is_open && !rest.is_empty()
    })
}

/// Whether a line contains this id as a separate word.
fn mentions(line: &str, id: &str) -> bool {
    line.match_indices(id).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + id.len()..]);
        (before.is_empty() || before.ends_with(' ')) && (after.is_empty() || after.starts_with(' '))
    })
}

/// Whether a printed name is this id, with or without a message.
fn matches_id(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with(" - "))
}

fn parse_status(word: &str) -> TestStatus {
    match word {
        "PASSED" => TestStatus::Passed,
        "ERROR" => TestStatus::Error,
        "SKIPPED" => TestStatus::Skipped,
        "XFAIL" => TestStatus::Xfailed,
        "XPASS" => TestStatus::Xpassed,
        _ => TestStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn read_keeps_ids_with_spaces_dashes_and_brackets() {
        let log = "== test session starts ==\na.py::t[x PASSED y] PASSED [ 50%]\n== x ==\n\
                   == short test summary info ==\nPASSED a.py::t[a - b]\nFAILED a.py::u[c] d] - e - f\n\
                   == 1 failed, 1 passed in 0.1s ==\n";
        let reading =
            read(log, &ids(&["a.py::t[a - b]", "a.py::u[c] d]", "a.py::t[x PASSED y]"]), None);
        let statuses: Vec<TestStatus> = reading.tests.into_values().collect();
        assert_eq!(statuses, [TestStatus::Passed, TestStatus::Passed, TestStatus::Failed]);
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
    }

    #[test]
    fn printed_pass_lines_are_ignored() {
        let log = "== test session starts ==\na.py F\n== FAILURES ==\nPASSED a.py::t\na.py::t PASSED\n\
                   == short test summary info ==\n== 1 failed in 0.1s ==\n";
        assert_eq!(read(log, &ids(&["a.py::t"]), None).tests["a.py::t"], TestStatus::Missing);
    }

    #[test]
    fn failed_subtest_fails_its_test() {
        for line in [
            "[a - b] (number=2) SUBFAIL a.py::t - assert",
            "(<subtest>) SUBFAIL a.py::t - assert",
            "SUBFAILED(number=1) a.py::t - x",
            "SUBFAILED[part] a.py::t - x",
            "SUBFAILED[case b]] (i=1) a.py::t - x",
            "SUBFAILED[case b] (i=1) a.py::t",
            "a.py::t SUBFAILED[case b] (i=1)              [ 50%]",
            "[gw0] [ 50%] [case b]] (i=1) SUBFAIL a.py::t",
            "[gw0] [ 50%] SUBFAILED[case b] (i=1) a.py::t",
            "[gw0] [ 50%] FAILED a.py::t ",
        ] {
            let log = format!(
                "== test session starts ==\n{line}\n== short test summary info ==\nPASSED a.py::t\n\
                 PASSED a.py::t2\nPASSED a.py::t[x]\n== 3 passed in 1s =="
            );
            let reading = read(&log, &ids(&["a.py::t", "a.py::t2", "a.py::t[x]"]), None);
            let statuses: Vec<TestStatus> = reading.tests.into_values().collect();
            let expected = [TestStatus::Failed, TestStatus::Passed, TestStatus::Passed];
            assert_eq!(statuses, expected, "{line}");
        }
    }

    #[test]
    fn only_truncated_ids_match_longer_ones() {
        let log = "== test session starts ==\n== short test summary info ==\nPASSED a.py::t[[]]\n\
                   PASSED a.py::u[a b]\nPASSED a.py::v[[] c]\nPASSED a.py::w[/tmp/x]\n== 4 passed in 1s ==";
        let wanted =
            ["a.py::t[[]", "a.py::t[[]]", "a.py::u[a", "a.py::v[[]", "a.py::w[/tmp", "a.py::t"];
        let reading = read(log, &ids(&wanted), None);
        let passed: Vec<&str> =
            wanted.into_iter().filter(|id| reading.tests[*id] == TestStatus::Passed).collect();
        assert_eq!(passed, ["a.py::t[[]]", "a.py::u[a", "a.py::v[[]", "a.py::w[/tmp"]);
    }

    #[test]
    fn pass_on_a_rerun_is_flaky() {
        let summary = "== short test summary info ==\nPASSED a.py::t\nPASSED b.py::u\n";
        for (progress, totals) in [
            ("a.py::t RERUN   [ 50%]\na.py::t PASSED   [ 50%]\nb.py::u PASSED   [100%]", "1 rerun"),
            (
                "a.py::t RETRY   [ 50%]\na.py::t PASSED   [ 50%]\nb.py::u PASSED   [100%]",
                "1 retried",
            ),
            ("[gw0] [ 50%] RERUN a.py::t \n[gw0] [ 50%] PASSED a.py::t ", "1 rerun"),
            ("a.py R.      [ 50%]\nb.py .      [100%]", "1 rerun"),
        ] {
            let log = format!(
                "== test session starts ==\n{progress}\n{summary}== 2 passed, {totals} in 0.1s ==\n"
            );
            let reading = read(&log, &ids(&["a.py::t", "b.py::u"]), Some(0));
            assert_eq!(reading.tests["a.py::t"], TestStatus::Flaky, "{progress}");
            assert_eq!(reading.tests["b.py::u"], TestStatus::Passed, "{progress}");
            assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
        }
        // If the rerun failed too, the test has failed.
        let log = "== test session starts ==\na.py::t RERUN\na.py::t FAILED\n== FAILURES ==\n\
                   == short test summary info ==\nFAILED a.py::t - x\n== 1 failed, 1 rerun in 0.1s ==\n";
        assert_eq!(read(log, &ids(&["a.py::t"]), None).tests["a.py::t"], TestStatus::Failed);
    }

    #[test]
    fn read_combines_consecutive_sessions() {
        let session = |file: &str, letter: &str, totals: &str| {
            format!(
                "+ pytest {file}\n== test session starts ==\ncollected 1 item\n\n{file} {letter}  [100%]\n\n\
                 == short test summary info ==\nPASSED {file}::t\n== {totals} in 0.1s ==\n"
            )
        };
        let wanted = ids(&["a.py::t", "b.py::t", "c.py::t"]);
        let good = ["a.py", "b.py", "c.py"].map(|file| session(file, ".", "1 passed")).concat();
        let reading = read(&good, &wanted, Some(0));
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
        assert!(reading.tests.values().all(|status| *status == TestStatus::Passed));
        // The last session was killed before its summary.
        let at = good.rfind("== short").unwrap();
        let reading = read(&good[..at], &wanted, None);
        assert!(!reading.is_complete);
        assert_eq!(reading.tests["c.py::t"], TestStatus::Missing);
        // A session that a test printed is not a separate session, because the outer session
        // collected more tests.
        let outer = format!(
            "== test session starts ==\ncollected 2 items\n\no.py ..  [100%]\n\n== PASSES ==\n{}{}\
             == short test summary info ==\nPASSED o.py::x\nPASSED o.py::y\n== 2 passed in 1s ==\n",
            session("a.py", ".", "1 passed"),
            session("b.py", "F", "1 failed")
        );
        let reading = read(&outer, &ids(&["a.py::t", "o.py::y"]), Some(0));
        assert!(reading.is_complete && reading.doubts.is_empty(), "{:?}", reading.doubts);
        assert_eq!(reading.tests["a.py::t"], TestStatus::Missing);
        assert_eq!(reading.tests["o.py::y"], TestStatus::Passed);
    }

    #[test]
    fn uncollectable_file_fails_its_tests() {
        let log = "== test session starts ==\na.py::t PASSED\n== ERRORS ==\n== short test summary info ==\n\
                   PASSED a.py::t\nERROR a.py - ImportError: x\n== 1 passed, 1 error in 0.1s ==\n";
        assert_eq!(read(log, &ids(&["a.py::t"]), Some(1)).tests["a.py::t"], TestStatus::Error);
    }
}
