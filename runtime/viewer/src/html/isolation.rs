//! Prepares names for narrow tables, and isolates right-to-left names in sentences, so that they don't
//! reorder the text next to them.

use minijinja::HtmlEscape;
use proctor_types::escape_unprintable;

/// Punctuation around a name that belongs to the sentence.
const PUNCTUATION: [char; 7] = [':', ';', ',', '.', '(', ')', '`'];

/// Escapes a sentence as HTML, and puts each group of words with right-to-left letters into a `bdi`
/// element. Such words are names, because all sentences are in English. Without the element, a
/// browser would also reorder the punctuation and numbers after a name.
pub(crate) fn isolate_names(sentence: &str) -> String {
    let sentence = escape_unprintable(sentence);
    let words: Vec<&str> = sentence.split(' ').collect();
    let groups = words.chunk_by(|word, next| is_right_to_left(word) == is_right_to_left(next));
    let groups: Vec<String> = groups
        .map(|group| {
            let text = group.join(" ");
            match group.first().is_some_and(|word| is_right_to_left(word)) {
                true => isolate(&text),
                false => HtmlEscape(&text).to_string(),
            }
        })
        .collect();
    groups.join(" ")
}

/// Escapes a name as HTML, and lets a browser wrap it after a slash, an underscore or a dot. Browsers
/// don't do so on their own, and would cut a long name in the middle of a word.
pub(crate) fn breakable_name(name: &str) -> String {
    let name = escape_unprintable(name);
    let pieces = name.split_inclusive(['/', '_', '.']);
    let pieces: Vec<String> = pieces.map(|piece| HtmlEscape(piece).to_string()).collect();
    pieces.join("<wbr/>")
}

/// Puts a name into a `bdi` element, without the punctuation around it.
fn isolate(text: &str) -> String {
    let after_start = text.trim_start_matches(PUNCTUATION);
    let name = after_start.trim_end_matches(PUNCTUATION);
    let start = &text[..text.len() - after_start.len()];
    let end = &after_start[name.len()..];
    format!("{}<bdi>{}</bdi>{}", HtmlEscape(start), HtmlEscape(name), HtmlEscape(end))
}

/// Whether a word has a letter of a script that is written from right to left.
fn is_right_to_left(word: &str) -> bool {
    word.chars().any(|character| {
        // In this order: Hebrew, Arabic, Syriac and their neighbors; their presentation forms; and
        // the historic scripts and Adlam.
        matches!(
            character,
            '\u{590}'..='\u{8ff}'
                | '\u{fb1d}'..='\u{fdff}'
                | '\u{fe70}'..='\u{fefe}'
                | '\u{10800}'..='\u{10fff}'
                | '\u{1e800}'..='\u{1efff}'
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{breakable_name, isolate_names};

    #[test]
    fn names_wrap_after_separators() {
        for (name, html) in [
            ("tools/gpt-5.1", "tools/<wbr/>gpt-5.<wbr/>1"),
            ("a__b<c>", "a_<wbr/>_<wbr/>b&lt;c&gt;"),
            ("plain", "plain"),
        ] {
            assert_eq!(breakable_name(name).replace("&#x2f;", "/"), html);
        }
    }

    #[test]
    fn right_to_left_names_are_isolated_without_their_punctuation() {
        for (sentence, html) in [
            ("a resolves 5 of 10.", "a resolves 5 of 10."),
            ("שלום: 3 failed", "<bdi>שלום</bdi>: 3 failed"),
            ("steps 30 (arm-שלום), 8 (b)", "steps 30 (<bdi>arm-שלום</bdi>), 8 (b)"),
            ("a / שלום עולם / 1: x", "a / <bdi>שלום עולם</bdi> / 1: x"),
            ("\u{202e}שלום <b> & c", "<bdi>\\u{202e}שלום</bdi> &lt;b&gt; &amp; c"),
            ("", ""),
        ] {
            assert_eq!(isolate_names(sentence).replace("&#x2f;", "/"), html, "{sentence}");
        }
    }
}
