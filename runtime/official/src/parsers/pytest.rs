//! Ports of `parse_log_pytest`, `parse_log_pytest_options` and `parse_log_matplotlib`.

use std::borrow::Cow;

use crate::parsers::{Edition, StatusMap, statuses::starts_with_status, text::words};

pub(super) fn parse_pytest(edition: Edition, log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        if let Some((status, name)) = parse_line(edition, line) {
            map.set(name, status);
        }
    }
    map
}

pub(super) fn parse_matplotlib(edition: Edition, log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        let line = line.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3");
        if let Some((status, name)) = parse_line(edition, &line) {
            map.set(name, status);
        }
    }
    map
}

pub(super) fn parse_pytest_options(edition: Edition, log: &str) -> StatusMap {
    let mut map = StatusMap::default();
    for line in log.split('\n') {
        if let Some((status, name)) = parse_line(edition, line) {
            map.set(shorten_parameter_path(&name), status);
        }
    }
    map
}

/// Returns the first two words of a line: the status and the test id. Ids end at the first space.
fn parse_line(edition: Edition, line: &str) -> Option<(String, String)> {
    if !starts_with_status(line) {
        return None;
    }
    let line = if line.starts_with("FAILED") {
        Cow::Owned(line.replace(" - ", " "))
    } else {
        Cow::Borrowed(line)
    };
    let words = words(&line);
    let (status, name) = (*words.first()?, *words.get(1)?);
    if edition >= Edition::V5 && is_skip_summary(status, name) {
        return None;
    }
    Some((status.to_owned(), name.to_owned()))
}

/// Whether the line is `SKIPPED [3] path:line: reason`, which names no test. Only edition 5
/// recognizes such lines.
pub(super) fn is_skip_summary(status: &str, name: &str) -> bool {
    let count = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    status == "SKIPPED"
        && count.is_some_and(|count| !count.is_empty() && count.chars().all(char::is_numeric))
}

/// Shortens a path in a parameter to its last component, and drops everything after the last `]`.
fn shorten_parameter_path(name: &str) -> String {
    let Some(open) = name.find('[') else { return name.to_owned() };
    let Some(close) = name.rfind(']').filter(|close| *close > open) else {
        return name.to_owned();
    };
    let (main, option) = (&name[..open], &name[open + 1..close]);
    if option.starts_with('/') && !option.starts_with("//") && !option.contains('*') {
        let last = option.rsplit('/').next().unwrap_or(option);
        return format!("{main}[/{last}]");
    }
    format!("{main}[{option}]")
}
