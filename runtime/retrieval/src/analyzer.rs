//! Splits text into index terms like Lucene's `EnglishAnalyzer`, which is Pyserini's default.
//!
//! ```text
//! words by Unicode's rules (UAX #29) -> without 's -> lower case -> stop words left out ->
//! Porter's stems
//! ```
//!
//! The rules of UAX #29 treat `os.path.join` and `foo_bar` as single words.
//!
//! There are two differences from Lucene: Lucene's character tables are from an older Unicode
//! version, and Lucene makes each ideograph a separate token, whereas this analyzer finds words.

use unicode_segmentation::UnicodeSegmentation;

use crate::porter::stem;

/// Maximum length of a word, in characters. As in Lucene, longer words are split.
const MAX_WORD_CHARS: usize = 255;

/// `EnglishAnalyzer.ENGLISH_STOP_WORDS_SET`, sorted.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// Returns the terms of a string, in order.
///
/// ```
/// use proctor_retrieval::terms;
/// assert_eq!(terms("The parser's caches: os.path.join"), ["parser", "cach", "os.path.join"]);
/// ```
pub fn terms(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for_each_word(text, |word| out.extend(term(word)));
    out
}

/// Calls `visit` with each word, as it is written.
pub(crate) fn for_each_word(text: &str, mut visit: impl FnMut(&str)) {
    for word in text.unicode_words() {
        if word.len() <= MAX_WORD_CHARS || word.chars().count() <= MAX_WORD_CHARS {
            visit(word);
            continue;
        }
        let chars: Vec<char> = word.chars().collect();
        for chunk in chars.chunks(MAX_WORD_CHARS) {
            visit(&chunk.iter().collect::<String>());
        }
    }
}

/// Returns a word's term, or `None` if the word is a stop word.
pub(crate) fn term(word: &str) -> Option<String> {
    let word = ["'s", "'S", "\u{2019}s", "\u{2019}S", "\u{ff07}s", "\u{ff07}S"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word);
    let lower = word.to_lowercase();
    STOP_WORDS.binary_search(&lower.as_str()).is_err().then(|| stem(&lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_match_lucene() {
        assert!(STOP_WORDS.is_sorted());
        let said = terms(
            "def __init__(self, max_depth=3.5): # It's NOT the Agencies' \u{2019}way\n\tx->y",
        );
        assert_eq!(said, ["def", "__init__", "self", "max_depth", "3.5", "agenc", "wai", "x", "y"]);
        assert_eq!(terms("it's"), Vec::<String>::new());
        assert_eq!(terms(&"a".repeat(300)).iter().map(String::len).collect::<Vec<_>>(), [255, 45]);
    }
}
