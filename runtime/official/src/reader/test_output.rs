//! Finds the part of a harness's log that contains the test run, and the exit status in it.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::text::pattern;

const START_MARKER: &str = ">>>>> Start Test Output";
const END_MARKER: &str = ">>>>> End Test Output";

static EXIT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r">>>>> Test Exit Code:\s*(-?\d+)"));

pub(super) struct TestOutput<'a> {
    pub body: &'a str,
    pub exit_status: Option<i64>,
    pub doubts: Vec<String>,
}

/// Finds the test run. If a log has no markers, all of it is the test run.
pub(super) fn find_test_output(log: &str) -> TestOutput<'_> {
    let mut doubts = Vec::new();
    for marker in [START_MARKER, END_MARKER] {
        let count = log.matches(marker).count();
        if count > 1 {
            doubts.push(format!("{marker:?} is printed {count} times"));
        }
    }
    let exits: Vec<&str> =
        EXIT_PATTERN.captures_iter(log).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    if exits.iter().any(|exit| Some(exit) != exits.first()) {
        doubts.push(format!("the log contains different exit statuses: {}", exits.join(", ")));
    }
    let exit = exits.last().map(|exit| exit.parse().unwrap_or(i64::MAX));
    let body = match (log.find(START_MARKER), log.rfind(END_MARKER)) {
        (Some(start), Some(end)) if start < end => &log[start + START_MARKER.len()..end],
        (None, None) => log,
        _ => {
            doubts.push("a marker of the test output is missing, or the order is wrong".into());
            log
        }
    };
    TestOutput { body, exit_status: exit, doubts }
}
