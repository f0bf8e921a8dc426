//! Parsers for tests that are nested below suite headings by indentation.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::{
    ParserCrash, StatusMap,
    text::{indent_width, python_pattern, strip},
};

/// The suite headings that enclose a line, each with its indentation.
#[derive(Default)]
struct SuiteStack<'a>(Vec<(&'a str, usize)>);

impl<'a> SuiteStack<'a> {
    /// Adds a heading. Ends every open suite that has at least the same indentation. A blank line
    /// counts as a heading.
    fn add_heading(&mut self, line: &'a str) {
        let depth = indent_width(line);
        while self.0.last().is_some_and(|(_, above)| *above >= depth) {
            self.0.pop();
        }
        self.0.push((strip(line), depth));
    }

    fn suite_name(&self) -> String {
        self.0.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" - ")
    }

    fn test_name(&self, test: &str) -> String {
        let names = self.0.iter().map(|(name, _)| *name).chain([test]);
        names.collect::<Vec<_>>().join(" - ")
    }
}

static SUMMARY_PATTERN: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"\n[ \t]*\d+ passing"));
static NUMBER_PATTERN: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^\d+\)"));
static DURATION_PATTERN: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"\(\d+ms\)"));

/// Port of `parse_log_highlightjs`, which reads mocha's output. Only one suite is open at a time.
pub(super) fn parse_highlightjs(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let mut suite: Option<&str> = None;
    let end = SUMMARY_PATTERN.find(log).map_or(log.len(), |found| found.start());
    for line in log[..end].split('\n') {
        let text = strip(line);
        let mark = ['✓', '✔'].into_iter().find(|mark| text.starts_with(*mark));
        let (separator, status) = match mark {
            Some(mark) => (mark, "PASSED"),
            None if NUMBER_PATTERN.is_match(text) => (')', "FAILED"),
            None => {
                if line.starts_with("  ") {
                    suite = Some(text);
                }
                continue;
            }
        };
        let rest = line.split_once(separator).map_or("", |(_, rest)| rest);
        let test = DURATION_PATTERN.replace_all(rest, "");
        let test = strip(&test);
        let name = suite.map_or_else(|| test.to_owned(), |suite| format!("{suite}.{test}"));
        map.set(name, status);
    }
    map
}

static ESCAPE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"\x1B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])"));

/// Removes the escape sequences that the harness's `ansi_escape` removes.
pub(super) fn strip_ansi_escapes(log: &str) -> String {
    ESCAPE_PATTERN.replace_all(log, "").into_owned()
}

static NEXT_ERROR: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"AssertionError:\s+#([\s\S]*?)\n\n"));
static NEXT_FAILED: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^.*?✗\s*(.*)"));
static NEXT_PASSED: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^.*?✓\s*(.*)"));

/// Port of `parse_log_next`, which reads the output of karma or, for one version, of cypress.
pub(super) fn parse_next(log: &str, version: Option<&str>) -> StatusMap {
    if version == Some("1.27") {
        return parse_next_cypress(log);
    }
    let mut map = StatusMap::default();
    let log = strip_ansi_escapes(log);
    let log = NEXT_ERROR.replace_all(&log, "");
    let mut suites = SuiteStack::default();
    for run in log.split(" xvfb-run ").skip(1) {
        let run = run.rsplit_once("Starting browser Chrome").map_or(run, |(_, rest)| rest);
        for line in run.split('\n') {
            let text = strip(line);
            if line.starts_with("TOTAL") {
                break;
            }
            if ["ERROR", "LOG", "WARN", "Check", "in"].iter().any(|word| text.starts_with(*word)) {
                continue;
            }
            if let Some(found) = NEXT_FAILED.captures(line) {
                map.set(suites.test_name(&found[1]), "FAILED");
            } else if let Some(found) = NEXT_PASSED.captures(line) {
                map.set(suites.test_name(&found[1]), "PASSED");
            } else if indent_width(line) > 0 {
                suites.add_heading(line);
            }
        }
    }
    map
}

static CYPRESS_SUITE: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"Running:(.*)\)\n{3}\s{2}(.*)\n"));
static CYPRESS_FAILED: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"(?m)^\s{4}\d+\)\s(.*)"));
static CYPRESS_PASSED: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"(?m)^\s{4}✓\s(.*)\("));

fn parse_next_cypress(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let suites: Vec<_> = CYPRESS_SUITE.captures_iter(log).collect();
    let starts: Vec<usize> =
        suites.iter().filter_map(|suite| suite.get(0).map(|whole| whole.start())).collect();
    for (at, suite) in suites.iter().enumerate() {
        let from = suite.get(0).map_or(0, |whole| whole.end());
        let to = starts.get(at + 1).copied().unwrap_or(log.len());
        for (pattern, status) in [(&CYPRESS_FAILED, "FAILED"), (&CYPRESS_PASSED, "PASSED")] {
            for found in pattern.captures_iter(&log[from..to]) {
                map.set(format!("{}: {}", &suite[2], strip(&found[1])), status);
            }
        }
    }
    map
}

static MOCHA_RUN: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"running\s\d+\stest\sfiles"));
static MOCHA_END: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"\d+\spassing"));
static MOCHA_TEST: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    [
        (r"^✔\s(.*)\s\(\d+m+s\)", "PASSED"),
        (r"^✔\s(.*)", "PASSED"),
        (r"^\d+\)\s(.*)\s\(\d+m+s\)", "FAILED"),
        (r"^\d+\)\s(.*)", "FAILED"),
    ]
    .map(|(text, status)| (python_pattern(text), status))
});

/// Port of `parse_log_lighthouse_mocha`, which reads mocha's output.
pub(super) fn parse_lighthouse_mocha(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for run in MOCHA_RUN.split(log).skip(1) {
        let run = strip(MOCHA_END.split(run).next().unwrap_or(run));
        let mut suites = SuiteStack::default();
        for line in run.split('\n') {
            let text = strip(line);
            let found = MOCHA_TEST
                .iter()
                .find_map(|(pattern, status)| pattern.captures(text).map(|found| (found, *status)));
            if let Some((found, status)) = found {
                map.set(suites.test_name(&found[1]), status);
            } else if indent_width(line) > 0 {
                suites.add_heading(line);
            }
        }
    }
    map
}

static CALYPSO_RESULTS: LazyLock<[(char, &str, Regex, Regex); 2]> = LazyLock::new(|| {
    [('✓', "PASSED"), ('✕', "FAILED")].map(|(mark, status)| {
        let timed = python_pattern(&format!(r"^\s+{mark}\s(.*)\(\d+ms\)$"));
        (mark, status, timed, python_pattern(&format!(r"^\s+{mark}\s(.*)")))
    })
});

/// Port of `parse_log_calypso`, which reads jest's verbose lines up to the details of the first
/// failure.
pub(super) fn parse_calypso(log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    let mut suites = SuiteStack::default();
    for run in log.split(" ./node_modules/.bin/jest ").skip(1) {
        for line in run.split('\n') {
            if line.starts_with("Test Suites") || line.starts_with("  ● ") {
                break;
            }
            let text = strip(line);
            let kind = CALYPSO_RESULTS.iter().find(|(mark, ..)| text.starts_with(*mark));
            if let Some((_, status, timed, plain)) = kind {
                let pattern = if DURATION_PATTERN.is_match(line) { timed } else { plain };
                let found = pattern
                    .captures(line)
                    .ok_or_else(|| ParserCrash::new("AttributeError", line))?;
                let name = format!("{} - {}", suites.suite_name(), &found[1]);
                map.set(strip(&name), *status);
            } else if indent_width(line) > 0 {
                suites.add_heading(line);
            }
        }
    }
    Ok(map)
}

static KARMA_LINE: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^(\s*)?([✔✖])?\s(.*)$"));

/// Port of `parse_log_karma`. A test's name includes every enclosing suite that the indentation
/// shows.
pub(super) fn parse_karma(log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    let mut depth: Option<usize> = None;
    let mut suites: Vec<String> = Vec::new();
    let mut started = false;
    for line in log.split('\n') {
        if line.starts_with("SUMMARY:") {
            break;
        }
        if line.contains("Starting browser") {
            started = true;
            continue;
        }
        if !started {
            continue;
        }
        let Some(found) = KARMA_LINE.captures(line) else { continue };
        let name = &found[3];
        let width = found.get(1).map_or(0, |space| space.as_str().chars().count());
        match found.get(2).map(|mark| mark.as_str()) {
            None if width == 0 => {}
            None if depth.is_none_or(|depth| width > depth) => {
                depth = Some(width);
                suites.push(name.to_owned());
            }
            None if depth.is_some_and(|depth| width < depth) => {
                depth = Some(width);
                suites.pop().ok_or_else(|| ParserCrash::new("IndexError", line))?;
            }
            None => {}
            Some(mark) => {
                let names = suites.iter().map(String::as_str).chain([name]);
                let full = names.collect::<Vec<_>>().join(" > ");
                map.set(full, if mark == "✔" { "PASSED" } else { "FAILED" });
            }
        }
    }
    Ok(map)
}
