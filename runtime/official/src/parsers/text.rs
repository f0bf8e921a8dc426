//! Python's text functions, where they differ from Rust's.

use std::borrow::Cow;

use regex::Regex;

/// Python's `str.isspace`: also the four information separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// The character class of Python's `\s`.
pub const SPACE: &str = r"[\s\x1c-\x1f]";

/// A pattern of the official code, with [`SPACE`] instead of `\s`.
#[expect(clippy::unwrap_used, reason = "all patterns are constants: a bad one fails every test")]
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// A pattern with Python's semantics: `\s` and `\S` include the information separators, in classes
/// too.
pub fn python_pattern(text: &str) -> Regex {
    pattern(&text.replace(r"\s", SPACE).replace(r"\S", r"[^\s\x1c-\x1f]"))
}

/// The number of white space characters at the beginning of a line.
pub fn indent(line: &str) -> usize {
    line.chars().take_while(|c| is_space(*c)).count()
}

/// `str.split()`.
pub fn words(text: &str) -> Vec<&str> {
    text.split(is_space).filter(|word| !word.is_empty()).collect()
}

/// `str.strip()`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Converts line endings like reading a file in text mode.
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
    fn separators_are_spaces_and_line_ends_are_one() {
        assert_eq!(words(" a\x1fb\u{a0}c\n"), ["a", "b", "c"]);
        assert_eq!(strip("\x1c a \u{3000}"), "a");
        assert_eq!(universal_newlines("a\r\nb\rc"), "a\nb\nc");
        assert_eq!(indent("\t\u{a0}\x1ca b"), 3);
    }

    #[test]
    fn python_pattern_knows_separators_in_and_out_of_classes() {
        let space = python_pattern(r"^a\sb\S[\d\s][^\S\n]c$");
        assert!(space.is_match("a\x1cb-\x1f\x1dc"));
        assert!(!space.is_match("a\x1cb-\x1f\nc") && !space.is_match("a\x1cb\x1e1 c"));
    }
}
