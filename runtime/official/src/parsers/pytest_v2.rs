//! Ports of `parse_log_pytest_v2`, which differs between all four editions, and of SWE-Gym's
//! variant.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

use crate::parsers::{
    Edition, ParserCrash, StatusMap,
    pytest::is_skip_summary,
    statuses::{ends_with_status, starts_with_status},
    text::{SPACE, pattern, words},
};

static COLOR_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[(\d+)m"));
static NOTE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r"FAILED{SPACE}*\[.*?\]")));

pub(super) fn parse_pytest_v2(edition: Edition, log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = strip_colors_and_controls(line);
        let starts = starts_with_status(&line);
        if !starts && !ends_with_status(&line) {
            continue;
        }
        if edition >= Edition::V5 {
            read_v5_line(&mut map, &line, starts);
            continue;
        }
        let line = remove_separator(&line);
        let words = words(&line);
        let (Some(first), Some(second)) = (words.first(), words.get(1)) else {
            // 2.1.0 uses the second word without checking that it exists.
            if edition == Edition::V2 {
                return Err(ParserCrash::index_error(&line));
            }
            continue;
        };
        // 3.0.4 reads `name STATUS` as if it were `STATUS name`.
        if starts || edition == Edition::V3 {
            map.set(*second, *first);
        } else {
            map.set(*first, *second);
        }
    }
    Ok(map)
}

/// Reads a line as edition 5 does: keeps spaces in ids, and removes the message only from `FAILED`
/// lines.
fn read_v5_line(map: &mut StatusMap, line: &str, is_status_first: bool) {
    let line = match line.split_once(" - ") {
        Some((head, _)) if line.starts_with("FAILED") => head,
        _ => line,
    };
    let words = words(line);
    if words.len() < 2 {
        return;
    }
    if !is_status_first {
        let (status, name) = (words[words.len() - 1], &words[..words.len() - 1]);
        map.set(name.join(" "), status);
    } else if !is_skip_summary(words[0], words[1]) {
        map.set(words[1..].join(" "), words[0]);
    }
}

pub(super) fn parse_pydantic(log: &str) -> Result<StatusMap, ParserCrash> {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = strip_colors_and_controls(line);
        let line = NOTE_PATTERN.replace_all(&line, "FAILED");
        let starts = starts_with_status(&line);
        if !starts && !ends_with_status(&line) {
            continue;
        }
        let line = remove_separator(&line);
        let words = words(&line);
        match (words.first(), words.get(1)) {
            (Some(first), Some(second)) if starts => map.set(*second, *first),
            (Some(first), Some(second)) => map.set(*first, *second),
            _ => return Err(ParserCrash::index_error(&line)),
        }
    }
    Ok(map)
}

/// Removes color codes that have a single number, and every control character, including tabs.
fn strip_colors_and_controls(line: &str) -> String {
    COLOR_PATTERN.replace_all(line, "").chars().filter(|c| !('\x01'..='\x1f').contains(c)).collect()
}

fn remove_separator(line: &str) -> Cow<'_, str> {
    if line.starts_with("FAILED") {
        Cow::Owned(line.replace(" - ", " "))
    } else {
        Cow::Borrowed(line)
    }
}
