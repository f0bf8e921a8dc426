//! Makes external text safe to quote in error messages.

use std::borrow::Cow;

use crate::escape::is_unprintable;

/// Maximum number of characters in a line of an error.
const MAX_LINE_CHARS: usize = 800;
/// Number of characters kept from the end of a longer line: errors end with the reason and the
/// hint.
const TAIL_CHARS: usize = 250;

/// Converts text to one readable line: line breaks and other control characters become spaces, and
/// text over 800 characters is shortened in the middle. Used for errors that quote a file or a
/// model.
pub fn one_line(text: &str) -> String {
    let clean = |c: char| if c == '\n' || c == '\t' || is_unprintable(c) { ' ' } else { c };
    let count = text.chars().count();
    if count <= MAX_LINE_CHARS {
        return text.chars().map(clean).collect();
    }
    const GAP: &str = " [...] ";
    let first = text.chars().take(MAX_LINE_CHARS - TAIL_CHARS - GAP.len());
    let last = text.chars().skip(count - TAIL_CHARS);
    first.chain(GAP.chars()).chain(last).map(clean).collect()
}

/// Makes external text safe for a terminal by replacing control characters with spaces. Line breaks
/// and tabs are kept.
pub fn replace_control_chars(text: &str) -> Cow<'_, str> {
    match text.contains(is_unprintable) {
        true => Cow::Owned(text.replace(is_unprintable, " ")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{one_line, replace_control_chars};

    #[test]
    fn control_characters_are_replaced_by_spaces() {
        assert_eq!(replace_control_chars("a\u{1b}[2J\0b\u{9b}c\r\n\td"), "a [2J b c \n\td");
        assert_eq!(replace_control_chars("plain\ntext"), "plain\ntext");
    }

    #[test]
    fn one_line_keeps_both_ends_of_long_text() {
        assert_eq!(one_line("a.py:1: \"x\r\n\u{1b}[1m\" is wrong"), "a.py:1: \"x   [1m\" is wrong");
        let long = one_line(&format!("a.py:1: {} is wrong", "é".repeat(20_000)));
        assert_eq!(long.chars().count(), 800);
        assert!(long.starts_with("a.py:1: é") && long.ends_with("é is wrong"), "{long}");
        let fits = "x".repeat(800);
        assert_eq!(one_line(&fits), fits);
    }
}
