//! The lines that divide a session of pytest: its headings and its totals.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

use crate::parsers::text::pattern;

/// The last line of a run. Versions of pytest before 5.1 write `in 0.12 seconds`.
static TOTALS_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^=* ?((?:\d+ [a-z ]+(?:, )?)+|no tests ran) in [\d.]+ ?s(?:econds?)?(?: \([^)]*\))? ?=*$",
    )
});

/// The counts in the last line of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    counts: BTreeMap<String, usize>,
}

impl Totals {
    pub fn count(&self, outcome: &str) -> usize {
        self.counts.get(outcome).copied().unwrap_or(0)
    }

    /// Whether no test ran.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the minimum number of tests that have an outcome. Excludes everything that pytest
    /// and its plug-ins count in addition to tests: warnings, earlier attempts, subtests.
    pub(super) fn min_outcome_count(&self) -> usize {
        let beside = |what: &str| {
            matches!(what, "warning" | "warnings" | "rerun" | "retried")
                || what.starts_with("subtests")
        };
        self.counts.iter().filter(|(what, _)| !beside(what)).map(|(_, count)| count).sum()
    }

    pub fn failure_count(&self) -> usize {
        self.count("failed") + self.count("error") + self.count("errors")
    }
}

/// Returns the totals of the last run in a log.
pub fn read_totals(log: &str) -> Option<Totals> {
    log.lines().rev().find_map(parse_totals)
}

pub(super) fn parse_totals(line: &str) -> Option<Totals> {
    let found = TOTALS_PATTERN.captures(line.trim_end())?;
    let counts = found[1].split(", ").filter_map(|part| {
        let (count, what) = part.split_once(' ')?;
        Some((what.trim().to_owned(), count.parse().ok()?))
    });
    Some(Totals { counts: counts.collect() })
}

pub(super) fn last_totals(lines: &[&str]) -> Option<Totals> {
    lines.iter().rev().find_map(|line| parse_totals(line))
}

/// Returns the index of the first heading after the session's own heading. The list of running
/// tests ends there.
pub(super) fn find_first_section(lines: &[&str]) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_totals_accepts_all_forms_of_the_last_line() {
        for (line, passed, bad) in [
            ("=== 3 failed, 2 passed, 1 xfailed, 2 errors in 0.10s ===", 2, 5),
            ("1 passed in 0.01s", 1, 0),
            ("==== 1 passed, 2 subtests passed, 1 warning in 61.20s (0:01:01) ====", 1, 0),
            ("== no tests ran in 0.02s ==", 0, 0),
            ("==== 2 failed, 1 passed, 1 warnings in 0.12 seconds ====", 1, 2),
            ("==== 4 passed, 1 retried, 2 rerun in 0.12s ====", 4, 0),
        ] {
            let totals = read_totals(line).unwrap();
            assert_eq!((totals.count("passed"), totals.failure_count()), (passed, bad), "{line}");
        }
        assert_eq!(read_totals("it passed in 3s"), None);
    }
}
