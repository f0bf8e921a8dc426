//! JavaScript parsers. Some search the whole log for patterns, and others choose another parser
//! depending on the row.

use std::{collections::HashMap, sync::LazyLock};

use regex::{NoExpand, Regex};
use serde_json::Value;

use crate::parsers::{
    ParserCrash, ParserName, RowFacts, StatusMap,
    indented::{parse_lighthouse_mocha, strip_ansi_escapes},
    results,
    text::{indent_width, is_space, python_pattern, strip},
};

static SPACES_PATTERN: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"\s+"));

/// Collapses whitespace to single spaces.
fn collapse_spaces(text: &str) -> String {
    strip(&SPACES_PATTERN.replace_all(text, " ")).to_owned()
}

const PRISM_COMMAND: &str = "./node_modules/.bin/mocha tests/run.js --reporter json";

/// Port of `parse_log_prismjs`, which reads mocha's JSON after each occurrence of the command.
pub(super) fn parse_prismjs(log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    for part in log.split(PRISM_COMMAND).skip(1) {
        let body = part.split_once('{').map_or(part, |(_, body)| body);
        let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
        let crash = |error: &'static str| ParserCrash::new(error, part);
        let report: Value =
            serde_json::from_str(&format!("{{{body}}}")).map_err(|_| crash("JSONDecodeError"))?;
        for (key, status) in [("failures", "FAILED"), ("passes", "PASSED")] {
            let tests =
                report.get(key).and_then(Value::as_array).ok_or_else(|| crash("KeyError"))?;
            for test in tests {
                let name = test.get("fullTitle").and_then(Value::as_str);
                map.set(name.ok_or_else(|| crash("KeyError"))?, status);
            }
        }
    }
    Ok(map)
}

static ESLINT_FAILURE: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"(\s{2}\d+\))([\s\S]*?)\s+(?:(.*)Error)"));

/// Port of `parse_log_eslint`, which reads mocha's list of failures.
pub(super) fn parse_eslint(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for found in ESLINT_FAILURE.captures_iter(log) {
        map.set(collapse_spaces(&found[2]), "FAILED");
    }
    map
}

static BPMN_FAILURES: LazyLock<[(Regex, usize); 4]> = LazyLock::new(|| {
    [
        (r"2KPhantomJS\s[\d\.]+\s\(Linux\s[\d\.]+\)\s(.*)FAILED\n", 1),
        (r"2KPhantomJS\s[\d\.]+\s\(Linux\sx86_64\)\s(.*)FAILED\n", 1),
        (r"Chrome\sHeadless\s(.*)\s\(Linux\sx86_64\)\s(.*)FAILED\n", 2),
        (r"HeadlessChrome\s[\d\.]+\s\(Linux\s[\d\.]+\)\s(.*)FAILED\n", 1),
    ]
    .map(|(text, group)| (python_pattern(text), group))
});

/// Port of `parse_log_bpmn_js`, which reads karma's failures.
pub(super) fn parse_bpmn_js(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for (pattern, group) in BPMN_FAILURES.iter() {
        for found in pattern.captures_iter(log) {
            map.set(&found[*group], "FAILED");
        }
    }
    map
}

static OPENLAYERS_FAILURES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    [
        r"(?m)Chrome\sHeadless\s[\d\.]+\s\(Linux\s[\d\._\S]+\)\s(.*)\sFAILED\n",
        r"(?m)Chrome\s[\d\.]+\s\(Linux\s[\d\._\S]+\)\s(.*)FAILED\n",
        r"(?m)^\s{2}\d+\)([\s\S]*?)Error:",
        r"(?m)^case\s(.*):\smismatch",
    ]
    .map(python_pattern)
});

/// Port of `parse_log_openlayers`, which reads the failures of karma, mocha and OpenLayers' own
/// rendering tests.
pub(super) fn parse_openlayers(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for pattern in OPENLAYERS_FAILURES.iter() {
        for found in pattern.captures_iter(log) {
            map.set(collapse_spaces(&found[1]), "FAILED");
        }
    }
    map
}

static GROMMET_RESULTS: LazyLock<[(Regex, &str); 2]> = LazyLock::new(|| {
    [(r"(?m)^FAIL\s(.*)", "FAILED"), (r"(?m)^PASS\s(.*)", "PASSED")]
        .map(|(text, status)| (python_pattern(text), status))
});
static GROMMET_TIME: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"\s\([\d\.]+\s?(?:ms|s)\)$"));

/// Port of `parse_log_grommet`, which reads jest's list of files. A pass replaces a failure of the
/// same file.
pub(super) fn parse_grommet(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for (pattern, status) in GROMMET_RESULTS.iter() {
        for found in pattern.captures_iter(log) {
            map.set(GROMMET_TIME.replace(strip(&found[1]), ""), *status);
        }
    }
    map
}

static FULL_TITLE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| python_pattern("\"fullTitle\":\\s\"(.*)\",\n"));
const LIGHTHOUSE_COMMAND: &str = "./node_modules/.bin/mocha --reporter json";

/// Port of `parse_log_lighthouse`, which reads the output of mocha or jest, or mocha's JSON,
/// depending on the row's version.
pub(super) fn parse_lighthouse(log: &str, version: Option<&str>) -> Result<StatusMap, ParserCrash> {
    if version.is_some_and(|version| matches!(version, "9.5" | "10.0" | "10.2")) {
        return Ok(parse_lighthouse_mocha(log));
    }
    if lighthouse_version(version)? >= 3.0 {
        return Ok(results::parse(ParserName::Carbon, log).unwrap_or_default());
    }
    let mut map = StatusMap::default();
    for run in log.split(LIGHTHOUSE_COMMAND).skip(1) {
        let parts = [("\"passes\": [", "]", "PASSED"), ("\"failures\": [", "],", "FAILED")];
        for (start, end, status) in parts {
            let part = run.rsplit_once(start).map_or(run, |(_, part)| part);
            let part = part.rsplit_once(end).map_or(part, |(part, _)| part);
            for found in FULL_TITLE_PATTERN.captures_iter(part) {
                map.set(&found[1], status);
            }
        }
    }
    Ok(map)
}

fn lighthouse_version(version: Option<&str>) -> Result<f64, ParserCrash> {
    let text = version.ok_or_else(|| ParserCrash::new("TypeError", "version: none"))?;
    strip(text).parse().map_err(|_| ParserCrash::new("ValueError", &format!("version: {text}")))
}

static QUARTO_TEST: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"\[(smoke|unit)\]"));
static QUARTO_FILES: LazyLock<[Regex; 2]> =
    LazyLock::new(|| [r"/tmp/(\w+)\.qmd", r"/tmp/(\w+)/"].map(python_pattern));

/// Port of `parse_log_quarto_cli`, which reads deno's results. Temporary files are numbered in
/// order of appearance.
pub(super) fn parse_quarto_cli(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for line in log.split('\n') {
        if line.contains("ERRORS") || line.contains("failures:") {
            break;
        }
        if !QUARTO_TEST.is_match(line) {
            continue;
        }
        let mut line = line.to_owned();
        for pattern in QUARTO_FILES.iter() {
            let Some(found) = pattern.find(&line).map(|found| found.as_str().to_owned()) else {
                continue;
            };
            let next = numbers.len();
            let number = *numbers.entry(found).or_insert(next);
            let name = format!("/tmp/{number}");
            line = pattern.replace_all(&line, NoExpand(&name)).into_owned();
        }
        let counts = ["passed", "failed", "steps"].iter().all(|word| line.contains(*word));
        if line.starts_with("test result:") || counts || line.contains("34mINFO") {
            continue;
        }
        let name = strip(line.split("...").next().unwrap_or(&line));
        if line.contains("32mok") {
            map.set(name, "PASSED");
        } else if line.contains("31mFAILED") || map.get(name).is_none() {
            map.set(name, "FAILED");
        }
    }
    map
}

static CHART_JS_FAILURE: LazyLock<Regex> =
    LazyLock::new(|| python_pattern(r"(?m)Chrome\s[\d\.]+[^\S\r\n]\(.+?\)[^\S\r\n](.*)FAILED$"));

/// Port of `parse_log_chart_js`, which reads karma's failures.
pub(super) fn parse_chart_js(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let log = strip_ansi_escapes(log);
    for found in CHART_JS_FAILURE.captures_iter(&log) {
        map.set(&found[1], "FAILED");
    }
    map
}

static P5_NUMBER: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"(?m)^\s*(\d+)\)"));
/// Maximum length of a failure's title in characters.
const MAX_P5_TITLE_CHARS: usize = 1000;

/// Port of `parse_log_p5js`, which reads mocha's list of failures and ignores JSON and XML that
/// tests printed.
pub(super) fn parse_p5js(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    let log = strip_ansi_escapes(log);
    let log = remove_json(&log);
    let log = remove_xml(&log);
    let mut from = 0;
    while let Some(head) = P5_NUMBER.find_at(&log, from) {
        let title = &log[head.end()..];
        let end = title.char_indices().take(MAX_P5_TITLE_CHARS + 1).find(|(_, c)| *c == ':');
        let Some((end, _)) = end else {
            from = head.end();
            continue;
        };
        from = head.end() + end + 1;
        let lines: Vec<&str> = title[..end].split('\n').collect();
        let mut above = 0;
        let deepens = lines.iter().all(|line| {
            let depth = indent_width(line);
            let deeper = depth > above;
            above = depth;
            deeper
        });
        if deepens {
            let names: Vec<&str> = lines.into_iter().map(strip).collect();
            map.set(names.join(":"), "FAILED");
        }
    }
    map
}

/// Removes the lines of JSON objects and lists.
fn remove_json(log: &str) -> String {
    let (mut in_object, mut in_list) = (false, false);
    let mut kept = Vec::new();
    for line in log.split('\n') {
        let text = line.trim_end_matches(is_space);
        if text.ends_with('{') {
            in_object = true;
        } else if text.ends_with('[') {
            in_list = true;
        } else if text == "}" && in_object {
            in_object = false;
        } else if text == "]" && in_list {
            in_list = false;
        } else if !(in_object
            || in_list
            || (text.starts_with('{') && text.ends_with('}'))
            || (text.starts_with('[') && text.ends_with(']')))
        {
            kept.push(line);
        }
    }
    kept.join("\n")
}

static TAG_PATTERN: LazyLock<Regex> = LazyLock::new(|| python_pattern(r"<(\w+)>"));

/// Removes XML elements. The harness removes one match of `<x>...</x>` at a time and puts the
/// opening tags inside the match back. Counting has the same result: each closing tag ends one
/// opening tag.
fn remove_xml(log: &str) -> String {
    let mut kept = String::new();
    let mut ends: HashMap<&str, Option<usize>> = HashMap::new();
    let mut from = 0;
    while let Some(found) = TAG_PATTERN.captures_at(log, from) {
        let (Some(tag), Some(name)) = (found.get(0), found.get(1)) else { break };
        let close = format!("</{}>", name.as_str());
        let last = *ends.entry(name.as_str()).or_insert_with(|| log.rfind(&close));
        if last.is_none_or(|last| last < tag.end()) {
            kept.push_str(&log[from..tag.end()]);
            from = tag.end();
            continue;
        }
        kept.push_str(&log[from..tag.start()]);
        from = tag.end();
        let mut open = 1;
        while open > 0 {
            let Some(at) = log[from..].find(&close) else { break };
            open += log[from..from + at].matches(tag.as_str()).count();
            open -= 1;
            from += at + close.len();
        }
        kept.push_str(&tag.as_str().repeat(open));
    }
    kept.push_str(&log[from..]);
    kept
}

/// Port of `parse_log_immutable_js`, which chooses the parser for the row.
pub(super) fn immutable_js_parser(row_facts: RowFacts<'_>) -> Result<ParserName, ParserCrash> {
    match row_facts.id.rsplit('-').next() {
        Some("2006") => Ok(ParserName::Jest),
        Some("2005") => Ok(ParserName::JestJson),
        _ => Err(unknown_row_crash(row_facts)),
    }
}

/// Port of `parse_log_jekyll`, which chooses the parser for the row.
pub(super) fn jekyll_parser(row_facts: RowFacts<'_>) -> Result<ParserName, ParserCrash> {
    match row_facts.id.split('-').nth(1) {
        Some("9141" | "8047" | "8167") => Ok(ParserName::Minitest),
        Some("8761" | "8771") => Ok(ParserName::Cucumber),
        _ => Err(unknown_row_crash(row_facts)),
    }
}

fn unknown_row_crash(row_facts: RowFacts<'_>) -> ParserCrash {
    ParserCrash::new("ValueError", &format!("instance {}", row_facts.id))
}

/// Checks that the lighthouse parser can be chosen for a row.
pub(super) fn check_lighthouse_row(row_facts: RowFacts<'_>) -> Result<(), ParserCrash> {
    lighthouse_version(row_facts.version).map(drop)
}
