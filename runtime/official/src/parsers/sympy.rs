//! Port of `parse_log_sympy`, which reads the output of `bin/test --verbose`. Test names don't
//! contain the file, so tests in different files may have the same name.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::{
    StatusMap,
    text::{pattern, strip, words},
};

static HEADING: LazyLock<Regex> = LazyLock::new(|| pattern(r"(_*) (.*)\.py:(.*) (_*)"));

pub(super) fn parse(log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for found in HEADING.captures_iter(log) {
        map.set(format!("{}.py:{}", &found[2], &found[3]), "FAILED");
    }
    for line in log.split('\n') {
        let line = strip(line);
        if !line.starts_with("test_") {
            continue;
        }
        for (end, status) in [(" E", "ERROR"), (" F", "FAILED"), (" ok", "PASSED")] {
            if line.ends_with(end)
                && let Some(name) = words(line).first()
            {
                map.set(*name, status);
            }
        }
    }
    map
}
