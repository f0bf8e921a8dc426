//! Reads the Test Anything Protocol, versions 12 to 14, as printed by `prove -v`, `node --test` and
//! node-tap.

use std::{collections::BTreeMap, sync::LazyLock};

use proctor_types::TestStatus;
use regex::Regex;

use super::{content::Report, root::ReportRoot};
use crate::parsers::text::pattern;

static POINT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(not )?ok(?:[ \t]+(\d+))?(?:[ \t]+(?:-(?:[ \t]+|$))?(.*))?$"));
static PLAN_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^1\.\.(\d+)[ \t]*(?:#.*)?$"));
static DIRECTIVE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)(?:^|[ \t])#[ \t]*(skip|todo)\w*(?:\W.*)?$"));
/// node-tap appends this to a description.
static DURATION_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|[ \t])#[ \t]*time=\S+[ \t]*$"));
/// Indentation of subtests, in columns.
const INDENT_WIDTH: usize = 4;

pub(super) fn matches_format(log: &str) -> bool {
    let (mut version, mut plan, mut point) = (false, false, false);
    for line in log.lines() {
        version |= line.starts_with("TAP version 1");
        plan |= PLAN_PATTERN.is_match(line);
        point |= POINT_PATTERN.captures(line).is_some_and(|found| found.get(2).is_some());
    }
    point && (version || plan)
}

/// Results at one nesting level whose parent test has not been read yet.
type PendingResults = Vec<(String, TestStatus)>;

#[derive(Default)]
struct TapReader {
    results_by_level: BTreeMap<usize, PendingResults>,
    /// Tests whose subtests follow in braces, by level.
    open_tests: BTreeMap<usize, String>,
    /// Names from `# Subtest: name` comments, by the comment's level.
    announced_names: BTreeMap<usize, String>,
    planned_count: usize,
    has_plan: bool,
    /// Number of test points at the outermost level.
    point_count: usize,
    /// Number of lines with only `ok`: a point without a number, or printed by `prove` when a file
    /// ends.
    bare_ok_count: usize,
}

impl TapReader {
    /// Moves the results below a test to the test's own level.
    fn nest_results(&mut self, level: usize, name: &str) {
        let below = self.results_by_level.remove(&(level + 1)).unwrap_or_default();
        let named = below.into_iter().map(|(id, status)| (format!("{name} > {id}"), status));
        self.results_by_level.entry(level).or_default().extend(named);
    }

    fn add_point(&mut self, level: usize, is_failed: bool, number: Option<&str>, rest: &str) {
        let (rest, is_open) = match rest.strip_suffix('{') {
            Some(head) if head.is_empty() || head.ends_with([' ', '\t']) => (head, true),
            _ => (rest, false),
        };
        let directive = DIRECTIVE_PATTERN.captures(rest);
        let end = directive.as_ref().and_then(|found| found.get(0)).map(|found| found.start());
        let name = DURATION_PATTERN.replace(&rest[..end.unwrap_or(rest.len())], "");
        let name = unescape(name.trim());
        if level == 0 {
            match (number, name.is_empty()) {
                (None, true) => self.bare_ok_count += 1,
                _ => self.point_count += 1,
            }
        }
        let name = match (name.is_empty(), number) {
            (false, _) => name,
            (true, Some(number)) => number.to_owned(),
            (true, None) => return,
        };
        let word = directive.as_ref().map(|found| found[1].to_ascii_lowercase());
        let status = match (word.as_deref(), is_failed) {
            (Some("skip"), _) => TestStatus::Skipped,
            (Some(_), true) => TestStatus::Xfailed,
            (Some(_), false) => TestStatus::Xpassed,
            (None, true) => TestStatus::Failed,
            (None, false) => TestStatus::Passed,
        };
        self.nest_results(level, &name);
        self.results_by_level.entry(level).or_default().push((name.clone(), status));
        if is_open {
            self.open_tests.insert(level, name);
        }
    }
}

pub(super) fn read(log: &str, root: &ReportRoot) -> Report {
    let mut report = Report::default();
    let mut reading = TapReader::default();
    let (mut in_yaml, mut after_point) = (false, false);
    for line in log.lines() {
        let text = line.trim_start_matches(' ');
        let column = line.len() - text.len();
        let text = text.trim_end();
        if in_yaml {
            in_yaml = text != "...";
            continue;
        }
        let level = column / INDENT_WIDTH;
        // A YAML block belongs to the point directly above it. Anywhere else, a test may have
        // printed the marker.
        let is_yaml = std::mem::take(&mut after_point) && text == "---" && column > 0;
        if is_yaml {
            in_yaml = true;
        } else if let Some(name) = text.strip_prefix("# Subtest: ") {
            reading.announced_names.insert(level, unescape(name));
        } else if text == "}"
            && let Some(name) = reading.open_tests.remove(&level)
        {
            reading.nest_results(level, &name);
        } else if text.starts_with("Bail out!") {
            report.doubts.push(format!("the run was aborted: {text}"));
        } else if !column.is_multiple_of(INDENT_WIDTH) {
            // Skip diagnostics and the output of tests.
        } else if let Some(found) = PLAN_PATTERN.captures(text) {
            if level == 0 {
                reading.has_plan = true;
                let count: usize = found[1].parse().unwrap_or(usize::MAX);
                reading.planned_count = reading.planned_count.saturating_add(count);
            }
        } else if let Some(found) = POINT_PATTERN.captures(text) {
            let rest = found.get(3).map_or("", |rest| rest.as_str());
            let number = found.get(2).map(|number| number.as_str());
            reading.add_point(level, found.get(1).is_some(), number, rest);
            after_point = true;
        }
    }
    // The remaining subtests belong to parents that have no result.
    while let Some(deepest) =
        reading.results_by_level.keys().next_back().copied().filter(|level| *level > 0)
    {
        let announced =
            reading.announced_names.get(&(deepest - 1)).or(reading.announced_names.get(&deepest));
        let name = announced.cloned().unwrap_or_else(|| "?".to_owned());
        reading.nest_results(deepest - 1, &name);
    }
    let (points, bare) = (reading.point_count, reading.bare_ok_count);
    let is_counted = (points..=points.saturating_add(bare)).contains(&reading.planned_count);
    report.is_complete = reading.has_plan && is_counted && report.doubts.is_empty();
    if reading.has_plan && reading.planned_count < points {
        report.doubts.push(format!("tests planned: {}, listed: {points}", reading.planned_count));
    }
    for (id, status) in reading.results_by_level.into_values().flatten() {
        // node uses a file's path as its name.
        report.add(root.relative_path(&id).to_owned(), status);
    }
    report
}

/// Returns a description without the backslashes before `#` and `\`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\'
            && let Some(next) = chars.next_if(|next| matches!(next, '#' | '\\'))
        {
            out.push(next);
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_report(log: &str) -> Report {
        read(log, &ReportRoot::new("/testbed"))
    }

    fn assert_tests(report: &Report, expected: &[(&str, TestStatus)]) {
        let expected = expected.iter().map(|(id, status)| ((*id).to_owned(), *status));
        assert_eq!(report.tests, expected.collect::<BTreeMap<_, _>>());
    }

    use TestStatus::{Failed, Passed, Skipped, Xfailed, Xpassed};

    #[test]
    fn read_nests_node_subtests() {
        let report = read_report(include_str!("../../../tests/reports/node.tap"));
        assert_tests(
            &report,
            &[
                ("calc", Failed),
                ("calc > adds", Failed),
                ("calc > adds > badly", Failed),
                ("calc > adds > two # numbers", Passed),
                ("calc > later", Skipped),
                ("calc > some day", Xpassed),
                ("parent", Passed),
                ("parent > child", Passed),
                ("top level", Passed),
            ],
        );
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
    }

    #[test]
    fn read_parses_prove_and_mocha_output() {
        let report = read_report(include_str!("../../../tests/reports/prove.tap"));
        assert_tests(
            &report,
            &[
                ("4", Skipped),
                ("adds", Passed),
                ("b one", Passed),
                ("group", Failed),
                ("group > inner # one", Passed),
                ("group > inner bad", Failed),
                ("todo", Xfailed),
            ],
        );
        assert!(report.is_complete && report.doubts.is_empty(), "{:?}", report.doubts);
        let mocha = read_report(include_str!("../../../tests/reports/mocha.tap"));
        assert_eq!(mocha.tests["calc adds badly"], Failed);
        assert_eq!(mocha.tests["calc later"], Skipped);
        assert!(mocha.is_complete);
    }

    #[test]
    fn read_parses_subtests_in_braces() {
        let log = "TAP version 14\nok 1 - outer # time=5.1ms {\n    ok 1 - inner # time=1ms\n    1..1\n}\n\
                   not ok 2 - later # TODO soon\nok 3 - skips # SKIP\n1..3\n";
        let report = read_report(log);
        let expected =
            [("later", Xfailed), ("outer", Passed), ("outer > inner", Passed), ("skips", Skipped)];
        assert_tests(&report, &expected);
        assert!(report.is_complete);
    }

    #[test]
    fn truncated_tap_is_incomplete() {
        assert!(!read_report("ok 1 - a\n").is_complete);
        assert!(!read_report("1..2\nok 1 - a\n").is_complete);
        assert!(!read_report("1..1\nok 1 - a\nBail out! no disk\n").is_complete);
        assert!(!read_report("1..1\nok 1 - a\nok 2 - b\n").is_complete);
        let inside = read_report("# Subtest: p\n    ok 1 - c\n");
        assert!(!inside.is_complete);
        assert_tests(&inside, &[("p > c", Passed)]);
    }

    #[test]
    fn read_ignores_points_in_diagnostics() {
        let log = "1..2\nok 1 - a\n  ---\n  at: |\n    not ok 1 - a\n  ...\nokay 7 - no\n    ---\n  ok 9 - odd\n# ok 3 - c\nok 2 - a \\# b\n";
        assert_tests(&read_report(log), &[("a", Passed), ("a # b", Passed)]);
        assert!(read_report(log).is_complete);
        // Descriptions that begin with a number or a dash.
        assert_tests(
            &read_report("1..2\nok 1 2 apples\nok - -x\n"),
            &[("-x", Passed), ("2 apples", Passed)],
        );
    }
}
