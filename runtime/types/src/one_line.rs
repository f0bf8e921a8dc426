//! Foreign text in the form that an error may quote.

use std::borrow::Cow;

use crate::visible::acts;

/// Maximum characters of a line of an error.
const LONGEST: usize = 800;
/// Characters that are kept from the end of a longer line: errors end with the reason and the hint.
const END: usize = 250;

/// Converts text to one readable line: line breaks and other control characters become blanks, and
/// a text over 800 characters loses its middle. For errors that quote a file or a model.
pub fn one_line(text: &str) -> String {
    let clean = |c: char| if c == '\n' || c == '\t' || acts(c) { ' ' } else { c };
    let count = text.chars().count();
    if count <= LONGEST {
        return text.chars().map(clean).collect();
    }
    const GAP: &str = " [...] ";
    let first = text.chars().take(LONGEST - END - GAP.len());
    let last = text.chars().skip(count - END);
    first.chain(GAP.chars()).chain(last).map(clean).collect()
}

/// External text made safe for a terminal: without control characters. Line breaks are kept.
pub fn harmless(text: &str) -> Cow<'_, str> {
    match text.contains(acts) {
        true => Cow::Owned(text.replace(acts, " ")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{harmless, one_line};

    #[test]
    fn nothing_drives_a_terminal() {
        assert_eq!(harmless("a\u{1b}[2J\0b\u{9b}c\r\n\td"), "a [2J b c \n\td");
        assert_eq!(harmless("plain\ntext"), "plain\ntext");
    }

    #[test]
    fn a_long_text_keeps_its_place_and_its_reason() {
        assert_eq!(one_line("a.py:1: \"x\r\n\u{1b}[1m\" is wrong"), "a.py:1: \"x   [1m\" is wrong");
        let long = one_line(&format!("a.py:1: {} is wrong", "é".repeat(20_000)));
        assert_eq!(long.chars().count(), 800);
        assert!(long.starts_with("a.py:1: é") && long.ends_with("é is wrong"), "{long}");
        let fits = "x".repeat(800);
        assert_eq!(one_line(&fits), fits);
    }
}
