//! Checks whether the counts in pytest's last line match the lines before it.
//!
//! Only contradictions that an honest run cannot produce count against a log. The number of
//! outcomes therefore has no upper limit: an error at teardown, a module that skips itself and a
//! subtest all count in addition to the collected tests.
//!
//! A log may contain several sessions, one after the other or printed by a test. The session that
//! matches the last line counts.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    parsers::text::pattern,
    reader::pytest_session::{Totals, find_first_section, is_heading, parse_totals},
};

/// The number of collected tests. There is no such line if pytest-xdist runs the tests, because
/// each worker collects all of them.
static COLLECTED_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:collecting .*)?collected (\d+) items?(?: /|$)"));
/// `file letters [ 50%]`, and lines that continue the letters.
static PROGRESS_LETTERS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?:\S+\.\w+ ([.FEsxXRu,-]+)(?: *\[ *\d+%\])?|([.FEsxXRu,-]+) *\[ *\d+%\])$")
});

/// Returns contradictions between the counts in the last line and the lines before it.
pub(super) fn disagreements(lines: &[&str], last_totals: &Totals) -> Vec<String> {
    let mut found = Vec::new();
    // Both counts include deselected tests, so they can be compared.
    if let Some(collected) = min_collected_count(lines)
        && collected > last_totals.min_outcome_count()
    {
        let counted = last_totals.min_outcome_count();
        found.push(format!("tests collected: {collected}, counted in the last line: {counted}"));
    }
    let shown = count_shown_failures(lines);
    let counted: usize = lines
        .iter()
        .filter_map(|line| parse_totals(line))
        .map(|totals| totals.failure_count())
        .sum();
    if shown > counted {
        found.push(format!(
            "failures shown while the tests ran: {shown}, counted in the totals: {counted}"
        ));
    }
    found
}

/// Whether the lines form one complete session: the last line counts at least as many tests as the
/// first session in the lines collected. Returns `false` for a session that quotes another one.
pub(super) fn is_one_session(lines: &[&str], last_totals: &Totals) -> bool {
    let first = collected_counts(lines).next();
    first.is_none_or(|first| first <= last_totals.min_outcome_count())
        && disagreements(lines, last_totals).is_empty()
}

/// Returns the smallest number of tests that a session in the log collected.
fn min_collected_count(lines: &[&str]) -> Option<usize> {
    collected_counts(lines).min()
}

fn collected_counts(lines: &[&str]) -> impl Iterator<Item = usize> {
    let mut heading = false;
    lines.iter().filter_map(move |line| {
        if line.starts_with("==") {
            heading = is_heading(line, "test session starts");
        } else if heading && let Some(found) = COLLECTED_PATTERN.captures(line) {
            heading = false;
            return Some(found[1].parse().unwrap_or(0));
        }
        None
    })
}

/// Counts the letters of failures and errors in the first session's progress.
fn count_shown_failures(lines: &[&str]) -> usize {
    let progress = &lines[..find_first_section(lines).unwrap_or(lines.len())];
    progress
        .iter()
        .filter_map(|line| PROGRESS_LETTERS.captures(line))
        .filter_map(|found| found.get(1).or(found.get(2)))
        .map(|letters| letters.as_str().matches(['F', 'E']).count())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_disagreements(progress: &str, totals: &str) -> Vec<String> {
        let log = format!(
            "== test session starts ==\n{progress}\n== short test summary info ==\n== {totals} in 0.1s =="
        );
        let lines: Vec<&str> = log.lines().collect();
        disagreements(&lines, &parse_totals(lines[lines.len() - 1]).unwrap())
    }

    #[test]
    fn disagreements_accept_real_sessions() {
        for (progress, totals) in [
            ("collected 2 items\n\nt.py ..  [100%]", "2 passed"),
            ("collecting ... collected 1 item\n\nt.py::a PASSED", "1 passed, 3 warnings"),
            (
                "collected 5 items / 3 deselected / 2 selected\nt.py .s",
                "1 passed, 1 skipped, 3 deselected",
            ),
            // An error at teardown after a pass; a module that skips itself; subtests; reruns.
            ("collected 1 item\nt.py .E", "1 passed, 1 error"),
            ("collected 1 item / 1 skipped\nt.py .", "1 passed, 1 skipped"),
            ("collected 1 item / 1 error\nt.py .", "1 passed, 1 error"),
            ("collected 2 items\nt.py ,,u.F", "2 failed, 1 passed, 2 subtests passed"),
            ("collected 2 items\nt.py R.RF", "1 failed, 1 passed, 2 rerun"),
            ("collected 3 items\nt.py .F [ 66%]\nE [100%]", "1 failed, 1 passed, 1 error"),
            // Runs with workers and quiet runs show no counts.
            ("4 workers [9 items]\n..F. [ 40%]", "1 failed, 8 passed"),
            ("", "2 passed"),
            // A session that a test printed or that ran earlier does not belong to the last line.
            (
                "collected 4 items\nt.py ....\n== PASSES ==\n== test session starts ==\ncollected 9 items",
                "4 passed",
            ),
            (
                "collected 9 items\nt.py F........\n== 1 failed, 8 passed in 1s ==\n== test session starts ==\ncollected 4 items",
                "4 passed",
            ),
        ] {
            assert_eq!(find_disagreements(progress, totals), Vec::<String>::new(), "{progress}");
        }
    }

    #[test]
    fn disagreements_report_uncounted_tests() {
        assert_eq!(
            find_disagreements("collected 3 items\nt.py ..", "2 passed, 7 warnings, 1 rerun"),
            ["tests collected: 3, counted in the last line: 2"]
        );
        let shown = "failures shown while the tests ran: 1, counted in the totals: 0";
        assert_eq!(find_disagreements("collected 2 items\nt.py F. [100%]", "2 passed"), [shown]);
        assert_eq!(find_disagreements("t.py .. [ 50%]\n.E [100%]", "2 passed"), [shown]);
    }
}
