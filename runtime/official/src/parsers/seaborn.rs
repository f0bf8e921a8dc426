//! Port of `parse_log_seaborn`, which ignores skips, errors and expected failures.

use crate::parsers::{Edition, ParserCrash, StatusMap, text::words};

pub(super) fn parse(edition: Edition, log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let words = words(line);
        let failed = line.starts_with("FAILED");
        let inside = line.contains(" PASSED ");
        if words.len() < 2 {
            // Before 5.0, the second word is used without checking that it exists.
            if edition < Edition::V5 && (failed || inside || line.starts_with("PASSED")) {
                return Err(ParserCrash::index_error(line));
            }
            continue;
        }
        if failed {
            map.set(words[1], "FAILED");
        } else if inside {
            if words[1] == "PASSED" {
                map.set(words[0], "PASSED");
            }
        } else if line.starts_with("PASSED") {
            map.set(words[1], "PASSED");
        }
    }
    Ok(map)
}
