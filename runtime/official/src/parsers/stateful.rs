//! Parsers that carry state from line to line: redis, PHPUnit, Maven, Gradle, doctest (C++).

use std::{collections::VecDeque, sync::LazyLock};

use regex::Regex;
use roxmltree::{Document, Node};

use crate::parsers::{
    ParserCrash, StatusMap,
    text::{python_pattern, strip},
};

static REDIS_RESULT: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"^\[(ok|err|skip|ignore)\]:\s(.+?)(?:\s\((\d+\s*m?s)\))?$"));
static REDIS_FILE: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"\s+in\s+\S+$"));

/// Port of `parse_log_redis`. A failed test is followed by ` in FILE`, which is not part of the
/// test's name.
pub(super) fn parse_redis(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let Some(found) = REDIS_RESULT.captures(strip(line)) else { continue };
        match &found[1] {
            "ok" => map.set(&found[2], "PASSED"),
            "err" => map.set(REDIS_FILE.replace(&found[2], ""), "FAILED"),
            _ => map.set(&found[2], "SKIPPED"),
        }
    }
    map
}

static PHP_SUITE: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^(\w.+) \(.+\)$"));
static PHP_TEST: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^\s*([✔✘↩])\s*(.*)$"));

/// Port of `parse_log_phpunit`, which reads `--testdox` output. A heading names the class of the
/// tests below it.
pub(super) fn parse_phpunit(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let mut suite: Option<&str> = None;
    for line in log.split('\n') {
        if let Some(found) = PHP_SUITE.captures(line) {
            suite = found.get(1).map(|name| name.as_str());
            continue;
        }
        let Some(found) = PHP_TEST.captures(line) else { continue };
        // Python formats a missing suite as `None`.
        let name = format!("{} > {}", suite.unwrap_or("None"), &found[2]);
        map.set(
            name,
            match &found[1] {
                "✔" => "PASSED",
                "✘" => "FAILED",
                _ => "SKIPPED",
            },
        );
    }
    map
}

static MAVEN_TEST: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^.*-Dtest=(\S+).*$"));
static MAVEN_RESULT: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"^.*BUILD (SUCCESS|FAILURE)$"));

/// Port of `parse_log_maven`. Each test has its own command, whose build succeeds or fails.
/// Commands and results are paired in order. Results without a preceding command are paired with
/// the remaining commands at the end of the log.
pub(super) fn parse_maven(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let mut tests: VecDeque<String> = VecDeque::new();
    let mut results: VecDeque<&str> = VecDeque::new();
    for line in log.split('\n') {
        let line = strip(line);
        if let Some(found) = MAVEN_TEST.captures(line) {
            tests.push_back(found[1].to_owned());
        }
        let Some(found) = MAVEN_RESULT.captures(line) else { continue };
        let status = if &found[1] == "SUCCESS" { "PASSED" } else { "FAILED" };
        match tests.pop_front() {
            Some(test) => map.set(test, status),
            None => results.push_back(status),
        }
    }
    for (test, status) in tests.into_iter().zip(results) {
        map.set(test, status);
    }
    map
}

static GRADLE_RESULT: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"^([^>].+)\s+(PASSED|FAILED)$"));
static GRADLE_NAME: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"^([^>]\S*\s+>\s+\S+)$"));

/// Port of `parse_log_gradle_custom`. A test's status may be on a later line than the test's name.
pub(super) fn parse_gradle(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let mut pending: Option<String> = None;
    for line in log.split('\n') {
        let line = strip(line);
        if let Some(found) = GRADLE_RESULT.captures(line) {
            map.set(&found[1], &found[2]);
            pending = None;
        } else if let Some(found) = GRADLE_NAME.captures(line) {
            pending = Some(found[1].to_owned());
        } else if matches!(line, "PASSED" | "FAILED")
            && let Some(name) = pending.take()
        {
            map.set(name, line);
        }
    }
    map
}

/// Port of `parse_log_doctest`, which reads the XML report of doctest for C++ anywhere in the log.
pub(super) fn parse_doctest(log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    let Some(start) = log.find("<doctest") else { return Ok(map) };
    let end = "</doctest>";
    // Without the end marker, the harness parses a few characters that are not XML.
    let bad = |line: &str| ParserCrash::new("ParseError", line);
    let Some(length) = log[start..].find(end) else { return Err(bad(&log[start..])) };
    let text = &log[start..start + length + end.len()];
    let document = Document::parse(text).map_err(|_| bad(text))?;
    for case in named_descendants(document.root_element(), "TestCase") {
        let case_name = case.attribute("name").unwrap_or("None");
        for part in named_descendants(case, "SubCase") {
            let name = format!("{case_name} > {}", part.attribute("name").unwrap_or("None"));
            let passed = named_descendants(part, "Expression")
                .all(|expression| expression.attribute("success") == Some("true"));
            map.set(name, if passed { "PASSED" } else { "FAILED" });
        }
    }
    Ok(map)
}

/// Yields the elements with a name below a node, excluding the node itself.
fn named_descendants<'a, 'input: 'a>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.descendants().skip(1).filter(move |inner| inner.has_tag_name(name))
}
