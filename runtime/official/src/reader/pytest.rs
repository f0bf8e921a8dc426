//! pytest's output: the short test summary, verbose lines, xdist's, subtests'.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_types::{TestStatus, file_of, plural};
use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::{LogReading, count, worst},
};

const WORDS: &str = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS";

/// `STATUS name - message`, in the summary.
static SUMMARY: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"^({WORDS}) +(.+)$")));
/// A subtest's failure, as the plug-in and as pytest 9 print it.
static SUBTEST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:.*[\])] SUBFAIL|SUBFAIL|SUBFAILED(?:[\[(].*?[\])])*) +(\S.*)$"));
/// `name STATUS [ 50%]`.
static VERBOSE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"^(.+?) ({WORDS}|SUBFAIL)(?: \(.*\))? *(?:\[ *\d+(?:%|/\d+)\])?$"))
});
/// `[gw0] [ 50%] STATUS name`.
static WORKER: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r"^\[gw\d+\] (?:\[ *\d+(?:%|/\d+)\] )?({WORDS}) (.+?) *$")));
static TOTALS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^=* ?((?:\d+ [a-z ]+(?:, )?)+|no tests ran) in [\d.]+s(?: \([^)]*\))? ?=*$")
});

/// What the last line of a run counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    counts: BTreeMap<String, usize>,
}

impl Totals {
    pub fn of(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// No test ran.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The tests that have an outcome, at least. Not counted is what pytest and its plug-ins tell
    /// beside the tests: warnings, earlier tries, parts of tests.
    pub(super) fn outcomes(&self) -> usize {
        let beside = |what: &str| {
            matches!(what, "warning" | "warnings" | "rerun" | "retried")
                || what.starts_with("subtests")
        };
        self.counts.iter().filter(|(what, _)| !beside(what)).map(|(_, count)| count).sum()
    }

    pub fn bad(&self) -> usize {
        self.of("failed") + self.of("error") + self.of("errors")
    }
}

/// The totals of the last run that a log ends with.
pub fn totals(log: &str) -> Option<Totals> {
    log.lines().rev().find_map(totals_of)
}

pub(super) fn totals_of(line: &str) -> Option<Totals> {
    let found = TOTALS.captures(line.trim_end())?;
    let counts = found[1].split(", ").filter_map(|part| {
        let (count, what) = part.split_once(' ')?;
        Some((what.trim().to_owned(), count.parse().ok()?))
    });
    Some(Totals { counts: counts.collect() })
}

/// Lines by where they stand: a pass is believed only in a run's own list of results.
#[derive(Default)]
struct Found {
    passes: BTreeMap<String, Vec<TestStatus>>,
    failures: BTreeMap<String, Vec<TestStatus>>,
    /// In the last summary.
    summarised: usize,
}

pub(super) fn read(log: &str, wanted: &[String], exit: Option<i64>) -> LogReading {
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    let end = lines.iter().rposition(|line| totals_of(line).is_some());
    let summary = lines.iter().rposition(|line| is_heading(line, "short test summary info"));
    let first_section = section_after_start(&lines);
    let mut found = Found::default();
    for (at, line) in lines.iter().enumerate() {
        let in_summary = summary.is_some_and(|from| at > from) && end.is_none_or(|to| at < to);
        let in_progress = first_section.is_none_or(|section| at < section);
        found.line(line, in_summary, in_progress);
    }
    let mut reading = LogReading { ended: end.is_some(), ..LogReading::default() };
    // pytest ends with 0 or 1 (tests failed) where it ran to its end. Every other status is an
    // interruption, its own error or a signal, which no count of failures explains.
    if let Some(exit) = exit.filter(|exit| !matches!(exit, 0 | 1)) {
        reading.doubts.push(format!("exit status {exit} is not that of a run that ended"));
    }
    for id in wanted {
        reading.tests.insert(id.clone(), found.status(id));
    }
    if let Some(totals) = end.and_then(|at| totals_of(lines[at])) {
        if found.summarised > totals.of("passed") {
            reading.doubts.push(format!(
                "tests listed as passed: {}, counted: {}",
                found.summarised,
                totals.of("passed")
            ));
        }
        let failed = totals.bad() > 0;
        if let Some(exit) = exit
            && (exit == 0) == failed
        {
            let failures = plural(totals.bad(), "failure");
            reading.doubts.push(format!("exit status {exit}, and {failures}"));
        }
        reading.doubts.extend(count::disagreements(&lines, &totals));
    } else if exit.is_some_and(|exit| exit != 0) && found.failures.is_empty() {
        reading.doubts.push("the run failed, and shows no failure".into());
    }
    reading
}

/// Where the list of running tests ends: at the first heading after the session's own.
pub(super) fn section_after_start(lines: &[&str]) -> Option<usize> {
    let start = lines
        .iter()
        .position(|line| is_heading(line, "test session starts"))
        .map_or(0, |at| at + 1);
    let ends = |line: &&str| line.starts_with("==") && line.ends_with("==");
    lines[start..].iter().position(ends).map(|at| start + at)
}

pub(super) fn is_heading(line: &str, title: &str) -> bool {
    line.starts_with("==") && line.trim_matches('=').trim() == title
}

impl Found {
    fn line(&mut self, line: &str, in_summary: bool, in_progress: bool) {
        if let Some(found) = SUBTEST.captures(line) {
            self.add(&found[1], TestStatus::Failed, false);
        } else if let Some(found) = SUMMARY.captures(line) {
            let status = status(&found[1]);
            self.summarised += usize::from(in_summary && status == TestStatus::Passed);
            self.add(&found[2], status, in_summary);
        } else if let Some(found) = WORKER.captures(line) {
            self.add(&found[2], status(&found[1]), in_progress);
        } else if let Some(found) = VERBOSE.captures(line) {
            self.add(&found[1], status(&found[2]), in_progress);
        }
    }

    fn add(&mut self, name: &str, status: TestStatus, believed: bool) {
        let list = match status {
            TestStatus::Failed | TestStatus::Error => &mut self.failures,
            _ if believed => &mut self.passes,
            _ => return,
        };
        list.entry(name.to_owned()).or_default().push(status);
    }

    fn status(&self, id: &str) -> TestStatus {
        let exact: Vec<TestStatus> = self.about(|name| names(name, id)).collect();
        if !exact.is_empty() {
            return worst(&exact);
        }
        // A file that could not be collected takes its tests with it.
        let file = file_of(id);
        let broken = |name: &str| name == file || name.starts_with(&format!("{file} - "));
        if self.failures.keys().any(|name| broken(name)) {
            return TestStatus::Error;
        }
        // An id that its benchmark cut at a space or inside brackets stands for all that begin so.
        let cut = |name: &str| {
            name.strip_prefix(id).is_some_and(|rest| {
                rest.starts_with(' ') || id.matches('[').count() > id.matches(']').count()
            })
        };
        worst(&self.about(cut).collect::<Vec<_>>())
    }

    fn about(&self, fits: impl Fn(&str) -> bool) -> impl Iterator<Item = TestStatus> {
        self.failures
            .iter()
            .chain(&self.passes)
            .filter(move |(name, _)| fits(name))
            .flat_map(|(_, statuses)| statuses.iter().copied())
    }
}

/// Whether a printed name is this id, alone or before its message.
fn names(name: &str, id: &str) -> bool {
    name.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with(" - "))
}

fn status(word: &str) -> TestStatus {
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
    fn the_last_line_is_counted_in_all_its_forms() {
        for (line, passed, bad) in [
            ("=== 3 failed, 2 passed, 1 xfailed, 2 errors in 0.10s ===", 2, 5),
            ("1 passed in 0.01s", 1, 0),
            ("==== 1 passed, 2 subtests passed, 1 warning in 61.20s (0:01:01) ====", 1, 0),
            ("== no tests ran in 0.02s ==", 0, 0),
        ] {
            let totals = totals(line).unwrap();
            assert_eq!((totals.of("passed"), totals.bad()), (passed, bad), "{line}");
        }
        assert_eq!(totals("it passed in 3s"), None);
    }

    #[test]
    fn ids_with_spaces_dashes_and_brackets_are_whole() {
        let log = "== test session starts ==\na.py::t[x PASSED y] PASSED [ 50%]\n== x ==\n\
                   == short test summary info ==\nPASSED a.py::t[a - b]\nFAILED a.py::u[c] d] - e - f\n\
                   == 1 failed, 1 passed in 0.1s ==\n";
        let reading =
            read(log, &ids(&["a.py::t[a - b]", "a.py::u[c] d]", "a.py::t[x PASSED y]"]), None);
        let statuses: Vec<TestStatus> = reading.tests.into_values().collect();
        assert_eq!(statuses, [TestStatus::Passed, TestStatus::Passed, TestStatus::Failed]);
        assert!(reading.ended && reading.doubts.is_empty(), "{:?}", reading.doubts);
    }

    #[test]
    fn a_pass_that_a_test_printed_is_none() {
        let log = "== test session starts ==\na.py F\n== FAILURES ==\nPASSED a.py::t\na.py::t PASSED\n\
                   == short test summary info ==\n== 1 failed in 0.1s ==\n";
        assert_eq!(read(log, &ids(&["a.py::t"]), None).tests["a.py::t"], TestStatus::Missing);
    }

    #[test]
    fn a_subtest_that_failed_fails_its_test() {
        for line in [
            "[a - b] (number=2) SUBFAIL a.py::t - assert",
            "SUBFAILED(number=1) a.py::t - x",
            "SUBFAILED[part] a.py::t - x",
            "[gw0] [ 50%] FAILED a.py::t ",
        ] {
            let log = format!(
                "== test session starts ==\n{line}\n== short test summary info ==\nPASSED a.py::t\n== 1 passed in 1s =="
            );
            assert_eq!(read(&log, &ids(&["a.py::t"]), None).tests["a.py::t"], TestStatus::Failed);
        }
    }
}
