//! Port of `parse_log_django`, which reads the output of `runtests.py --verbosity 2`: unittest's
//! output and Django's own.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::{
    ParserCrash, StatusMap,
    text::{SPACE, pattern, strip, words},
};

/// Match test names that other Django output separates from their `ok`.
static SPLIT_RESULTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"Testing against Django installed in ((?s:.*?)) silenced\)\.",
        r"Internal Server Error: /(.*)/",
        r"System check identified no issues \(0 silenced\)",
    ]
    .iter()
    .map(|rest| pattern(&format!(r"(?m)^(.*?){SPACE}\.\.\.{SPACE}{rest}\nok$")))
    .collect()
});

pub(super) fn parse(log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    let mut previous: Option<String> = None;
    for line in log.split('\n') {
        let mut line = strip(line).to_owned();
        if line.contains("--version is equivalent to version") {
            map.set("--version is equivalent to version", "PASSED");
        }
        if let Some((before, _)) = line.split_once(" ... ") {
            previous = Some(before.to_owned());
        }
        for suffix in [" ... ok", " ... OK", " ...  OK"] {
            if !line.ends_with(suffix) {
                continue;
            }
            // The harness has this special case for a single instance, django__django-7188.
            if line.starts_with("Applying sites.0002_alter_domain_unique...test_no_migrations")
                && let Some((_, rest)) = line.split_once("...")
            {
                line = strip(rest).to_owned();
            }
            let name = line.rsplit_once(suffix).map_or(line.as_str(), |(name, _)| name);
            map.set(name, "PASSED");
            break;
        }
        if let Some((name, _)) = line.split_once(" ... skipped") {
            map.set(name, "SKIPPED");
        }
        for (end, start, status) in
            [(" ... FAIL", "FAIL:", "FAILED"), (" ... ERROR", "ERROR:", "ERROR")]
        {
            if line.ends_with(end)
                && let Some((name, _)) = line.split_once(end)
            {
                map.set(name, status);
            }
            if line.starts_with(start) {
                let words = words(&line);
                let name = words.get(1).ok_or_else(|| ParserCrash::index_error(&line))?;
                map.set(*name, status);
            }
        }
        if line.starts_with("ok")
            && let Some(name) = &previous
        {
            map.set(name.clone(), "PASSED");
        }
    }
    for pattern in SPLIT_RESULTS.iter() {
        for found in pattern.captures_iter(log) {
            map.set(&found[1], "PASSED");
        }
    }
    Ok(map)
}
