//! FeatureBench's three parsers.

use std::{collections::HashMap, sync::LazyLock};

use regex::Regex;

use crate::parsers::{
    StatusMap,
    text::{SPACE, pattern, strip},
};

/// The kinds of lines in a short test summary, each with the pattern for the test name.
static SUMMARY_PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let named = |status: &'static str| {
        (status, format!(r"^{status}{SPACE}+(.+?)(?:{SPACE}+-{SPACE}+.*)?$"))
    };
    let mut lines: Vec<(&str, String)> =
        ["PASSED", "FAILED", "ERROR", "XFAIL"].into_iter().map(named).collect();
    lines.push(("SKIPPED", format!(r"^SKIPPED{SPACE}+\[\d+\]{SPACE}+(.+?)(?::\d+)?:{SPACE}+.*$")));
    lines.push((
        "SUBFAILED",
        format!(r"^SUBFAILED(?:\(<subtest>\))?{SPACE}+(.+?)(?:{SPACE}+-{SPACE}+.*)?$"),
    ));
    lines.into_iter().map(|(status, text)| (status, pattern(&text))).collect()
});

/// Reads the first short test summary in the log, up to the next `===`. If `numbers_subtests` is
/// set (meson), the failed subtests of each test are numbered.
pub(super) fn parse_summary(log: &str, numbers_subtests: bool) -> StatusMap {
    let mut map = StatusMap::default();
    let mut counts: HashMap<String, usize> = HashMap::new();
    let lines = log.split('\n').skip_while(|line| !is_heading(line)).skip(1);
    for line in lines {
        let line = strip(line);
        if line.starts_with("===") {
            break;
        }
        let kind = SUMMARY_PATTERNS.iter().find(|(status, _)| match *status {
            "SUBFAILED" => numbers_subtests && line.starts_with(status),
            status => line.strip_prefix(status).is_some_and(|rest| rest.starts_with(' ')),
        });
        let Some((status, pattern)) = kind else { continue };
        let Some(found) = pattern.captures(line) else { continue };
        let name = strip(&found[1]);
        if *status == "SUBFAILED" {
            let count = counts.entry(name.to_owned()).or_default();
            *count += 1;
            map.set(format!("{name}[{count}]"), "FAILED");
        } else {
            map.set(name, *status);
        }
    }
    map
}

fn is_heading(line: &str) -> bool {
    line.to_lowercase().contains("short test summary info")
}

/// The statuses in the order in which the harness searches a line for them.
const VERBOSE_STATUSES: [&str; 5] = ["PASSED", "FAILED", "ERROR", "XFAIL", "SKIPPED"];

/// Reads verbose lines such as `path::name STATUS [ 50%]` (pydantic), up to the first heading after
/// the session's start.
pub(super) fn parse_verbose(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = strip(line);
        if line.starts_with("===") && !line.contains("test session starts") {
            break;
        }
        for status in VERBOSE_STATUSES {
            let inside = [format!(" {status} "), format!(" {status}\t")];
            if !inside.iter().any(|inside| line.contains(inside.as_str())) {
                continue;
            }
            let name = line.split_once(status).map_or("", |(name, _)| strip(name));
            if name.contains("::") {
                map.set(name, status);
                break;
            }
        }
    }
    map
}
