//! Python's text functions, where they differ from Rust's.

use std::borrow::Cow;

use regex::Regex;

/// Python's `str.isspace`, which includes the four information separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// The character class of Python's `\s`.
pub const SPACE: &str = r"[\s\x1c-\x1f]";

/// Compiles a pattern of the official code in which [`SPACE`] replaces `\s`.
#[expect(clippy::unwrap_used, reason = "all patterns are constants: a bad one fails every test")]
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// Compiles a pattern with Python's semantics. `\s` and `\S` include the information separators,
/// also inside character classes.
pub fn python_pattern(text: &str) -> Regex {
    pattern(&text.replace(r"\s", SPACE).replace(r"\S", r"[^\s\x1c-\x1f]"))
}

/// Returns the number of whitespace characters at the beginning of a line.
pub fn indent_width(line: &str) -> usize {
    line.chars().take_while(|c| is_space(*c)).count()
}

/// Python's `str.split()`.
pub fn words(text: &str) -> Vec<&str> {
    text.split(is_space).filter(|word| !word.is_empty()).collect()
}

/// Python's `str.strip()`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Converts line endings like Python's text mode.
pub fn universal_newlines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_functions_match_python() {
        assert_eq!(words(" a\x1fb\u{a0}c\n"), ["a", "b", "c"]);
        assert_eq!(strip("\x1c a \u{3000}"), "a");
        assert_eq!(universal_newlines("a\r\nb\rc"), "a\nb\nc");
        assert_eq!(indent_width("\t\u{a0}\x1ca b"), 3);
    }

    #[test]
    fn python_pattern_matches_information_separators() {
        let space = python_pattern(r"^a\sb\S[\d\s][^\S\n]c$");
        assert!(space.is_match("a\x1cb-\x1f\x1dc"));
        assert!(!space.is_match("a\x1cb-\x1f\nc") && !space.is_match("a\x1cb\x1e1 c"));
    }
}
