//! Counts tokens locally.
//!
//! Proctor uses local counts to check requests before sending them, to truncate long outputs, and
//! for values labeled as estimates. The endpoint's own numbers always take precedence. Tables and
//! algorithm come from `tiktoken-rs`. [`Tokenizer`] adds models that provide a `tokenizer.json`.

#![warn(missing_docs)]

mod encoding;
mod tokenizer;

pub use encoding::Encoding;
pub use tiktoken_rs::Rank;
pub use tokenizer::Tokenizer;

/// Returns the number of `o200k_base` tokens in a string, at about 15 MB/s. Special tokens count as
/// plain text.
pub fn count(text: &str) -> usize {
    Encoding::O200k.count(text)
}

/// Returns the `o200k_base` tokens of a string. Special tokens count as plain text.
pub fn encode(text: &str) -> Vec<Rank> {
    Encoding::O200k.table().encode_ordinary(text)
}

/// Returns the number of bytes that `o200k_base` tokens represent, or `None` if one is not in the
/// table.
pub fn decoded_byte_count(tokens: &[Rank]) -> Option<usize> {
    Encoding::O200k.table().decode_bytes(tokens).ok().map(|bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::{Encoding, count, decoded_byte_count, encode};

    #[test]
    fn special_tokens_count_as_plain_text() {
        for encoding in Encoding::ALL {
            assert!(encoding.count("<|endoftext|>") > 1, "{}", encoding.name());
            assert_eq!(Encoding::from_name(encoding.name()), Some(encoding));
        }
    }

    #[test]
    fn tokens_match_openai_documentation() {
        assert_eq!(encode("hello world"), [24912, 2375]);
        assert_eq!(Encoding::Cl100k.table().encode_ordinary("hello world"), [15339, 1917]);
    }

    #[test]
    fn decoded_length_is_the_length_of_the_text() {
        for text in [
            "",
            "hello world",
            "na\u{ef}ve \u{6f22}\u{5b57}\r\n\tfn x() {}",
            include_str!("lib.rs"),
        ] {
            assert_eq!(decoded_byte_count(&encode(text)), Some(text.len()));
            assert_eq!(count(text), encode(text).len());
        }
        assert_eq!(decoded_byte_count(&[u32::MAX]), None);
    }
}
