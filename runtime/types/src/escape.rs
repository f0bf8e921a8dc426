//! Makes external text safe for display.

use std::{borrow::Cow, fmt::Write as _};

/// Escapes every character that would affect a terminal or page instead of being displayed: control
/// characters such as those in escape sequences, bidirectional marks and zero-width characters.
/// Line breaks and tabs are kept.
///
/// ```
/// use proctor_types::escape_unprintable;
///
/// assert_eq!(escape_unprintable("a\u{1b}[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\n");
/// ```
pub fn escape_unprintable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unprintable(character) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// Like [`escape_unprintable`], but line breaks and tabs are escaped too.
pub fn escape_unprintable_line(text: &str) -> String {
    escape_unprintable(text).replace('\n', "\\n").replace('\t', "\\t")
}

pub(crate) fn is_unprintable(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // In this order: soft hyphen, Arabic letter mark, Mongolian vowel separator; zero-width and
        // directional marks, line and paragraph separators, embeddings and overrides; invisible
        // operators and isolates; the byte order mark; interlinear annotations; tags.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        // Control characters, and noncharacters, which HTML pages must not contain.
        other => {
            let code = u32::from(other);
            other.is_control() || code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unprintable_characters_are_escaped() {
        let plain = "naïve 日本語 العربية 🦀\n\tend";
        assert!(matches!(escape_unprintable(plain), Cow::Borrowed(same) if same == plain));
        let hostile = "\u{9b}31m\u{2066}x\u{2069}\u{200f}\r\u{0}\u{7f}\u{e0041}\u{2028}";
        let shown = escape_unprintable(hostile);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(escape_unprintable_line("a\nb\tc"), "a\\nb\\tc");
    }
}
