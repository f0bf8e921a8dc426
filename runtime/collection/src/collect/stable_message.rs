//! Removes details that vary between runs from error messages.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum length of a message, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Patterns of values that vary between runs, with their replacements. The order matters: dates
/// must be replaced before durations.
const VOLATILE_PATTERNS: [(&str, &str); 6] = [
    (r"0x[0-9a-fA-F]+", "0x..."),
    (r#"(?:/private)?(?:/var)?/tmp/[^\s'",:;()\[\]<>]+"#, "/tmp/..."),
    (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "(a date)"),
    (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "(a time)"),
    (
        r"\b\d+(?:\.\d+)?(?:e-?\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?|milliseconds?|min|minutes?)\b",
        "(a while)",
    ),
    // Seconds since the Unix epoch, and return values of `id()`.
    (r"\b\d{10,}(?:\.\d+)?\b", "(a number)"),
];

/// Joins a message's lines, truncates the result, and masks object addresses, temporary files,
/// dates, times, durations and long numbers. Otherwise, two collections with the same seed would
/// not produce the same bytes.
pub(super) fn stable_message(text: &str) -> String {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let read = |(pattern, mask)| Some((Regex::new(pattern).ok()?, mask));
        VOLATILE_PATTERNS.into_iter().filter_map(read).collect()
    });
    // pytest prefixes error lines with `E`.
    let text = text.trim();
    let text = text.strip_prefix("E  ").unwrap_or(text);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut out = line.split_whitespace().collect::<Vec<_>>().join(" ");
    for (pattern, mask) in PATTERNS.iter() {
        out = pattern.replace_all(&out, *mask).into_owned();
    }
    if out.chars().count() > MAX_MESSAGE_CHARS {
        out = out.chars().take(MAX_MESSAGE_CHARS).collect::<String>() + "...";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_message_masks_values_that_differ_between_runs() {
        for (said, told) in [
            (
                "ModuleNotFoundError: No module named 'x'",
                "ModuleNotFoundError: No module named 'x'",
            ),
            ("E   assert <A object at 0x7f00Ab>  is\nNone", "assert <A object at 0x...> is None"),
            ("No such file: '/tmp/pytest-of-u/a0/x.txt'", "No such file: '/tmp/...'"),
            ("/var/tmp/a-b: gone", "/tmp/...: gone"),
            ("took 1.25 s, 3ms and 2e-05s", "took (a while), (a while) and (a while)"),
            ("at 2026-11-25T07:08:01.5Z (07:08:01)", "at (a date) ((a time))"),
            ("assert 1764056000.12 == 139637976727552", "assert (a number) == (a number)"),
            ("assert 12 == 3 * s4", "assert 12 == 3 * s4"),
        ] {
            assert_eq!(stable_message(said), told, "{said}");
        }
        assert_eq!(stable_message(&"é".repeat(300)), "é".repeat(200) + "...");
        assert_eq!(VOLATILE_PATTERNS.iter().filter(|(it, _)| Regex::new(it).is_err()).count(), 0);
    }
}
