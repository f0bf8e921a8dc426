//! Local token counts by `o200k_base`, the encoding of current OpenAI models.
//!
//! For checks before a request, for cutting long outputs, and for estimates that are labelled so: what the
//! endpoint reports is the truth.
//!
//! The algorithm is `tiktoken-rs`; the table is `configs/tokenizers/o200k_base.merges.lzma`, the same one packed
//! to a fifth. (The copy inside `tiktoken-rs` is text of 3.6 MB; the linker drops it, as nothing here names it.)
//! [`Encoding`] has `cl100k_base` too, for counts as a paper made them.
//!
//! A token is a byte, or two tokens of lower rank one behind the other. So the table holds two ranks a token:
//!
//! ```text
//! table = byte*256 left right     ; packed by LZMA
//! left right                      ; of each further token: the highest byte of all its ranks, the middle, the lowest
//! ```

#![warn(missing_docs)]

mod cl100k;
mod encoding;
mod tokenizer;

pub use encoding::Encoding;
pub use tokenizer::Tokenizer;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
pub use tiktoken_rs::Rank;
use tiktoken_rs::{CoreBPE, ENDOFPROMPT, ENDOFTEXT, O200K_BASE_PAT_STR};

static PACKED: &[u8] = include_bytes!("../../../configs/tokenizers/o200k_base.merges.lzma");

/// Tokens of a text. About 15 MB/s once the table is loaded; special tokens in it are plain text.
pub fn count(text: &str) -> usize {
    o200k().count_ordinary(text)
}

/// The tokens of a text; special tokens in it are plain text.
pub fn encode(text: &str) -> Vec<Rank> {
    o200k().encode_ordinary(text)
}

/// The bytes that these tokens stand for; `None` where one is in no table.
pub fn width(tokens: &[Rank]) -> Option<usize> {
    o200k().decode_bytes(tokens).ok().map(|bytes| bytes.len())
}

/// The first call loads the table, in some 0.3 s of CPU time.
fn o200k() -> &'static CoreBPE {
    static ENCODING: LazyLock<CoreBPE> = LazyLock::new(|| {
        let special = [(ENDOFTEXT.to_owned(), 199_999), (ENDOFPROMPT.to_owned(), 200_018)];
        #[expect(clippy::expect_used, reason = "table and pattern are part of the build")]
        CoreBPE::new(ranks(), special.into_iter().collect(), O200K_BASE_PAT_STR)
            .expect("the carried encoding loads")
    });
    &ENCODING
}

fn ranks() -> FxHashMap<Vec<u8>, Rank> {
    tokens().into_iter().zip(0..).collect()
}

/// The tokens in the order of their ranks.
fn tokens() -> Vec<Vec<u8>> {
    let table = unpacked(PACKED);
    let (bytes, ranks) = table.split_at(256);
    let mut tokens: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
    let (left, right) = ranks.split_at(ranks.len() / 2);
    for (left, right) in ranks_of(left).zip(ranks_of(right)) {
        tokens.push([&tokens[left][..], &tokens[right]].concat());
    }
    tokens
}

/// What a carried table holds.
fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    let mut table = Vec::new();
    #[expect(clippy::expect_used, reason = "a test reads every token of it")]
    lzma_rs::lzma_decompress(&mut packed, &mut table).expect("the carried table unpacks");
    table
}

/// Ranks of three bytes: the highest of all of them, the middle, the lowest.
fn ranks_of(columns: &[u8]) -> impl Iterator<Item = usize> {
    let (high, rest) = columns.split_at(columns.len() / 3);
    let (middle, low) = rest.split_at(high.len());
    high.iter().zip(middle).zip(low).map(|((high, middle), low)| {
        usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low)
    })
}

/// Tokens that stand one behind the other, by their lengths.
fn tokens_of<'a>(lengths: &'a [u8], mut bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    lengths.iter().map(move |length| {
        let (token, rest) = bytes.split_at(usize::from(*length));
        bytes = rest;
        token
    })
}

#[cfg(test)]
mod tests {
    use super::{count, encode, o200k, ranks, width};

    /// Tokens of the table, special ones left out.
    const TOKENS: usize = 199_998;

    #[test]
    fn the_carried_table_is_the_published_one() {
        let published = tiktoken_rs::o200k_base_singleton();
        let carried = ranks();
        assert_eq!(carried.len(), TOKENS);
        for (token, rank) in &carried {
            assert_eq!(published.decode_bytes(&[*rank]).unwrap(), *token);
        }
        assert!(published.decode_bytes(&[TOKENS as u32]).is_err(), "and it ends there");
    }

    #[test]
    fn it_encodes_as_the_published_one() {
        let published = tiktoken_rs::o200k_base_singleton();
        let texts = ["", "hello world", "<|endoftext|>", "naïve 漢字 \u{1F600}\r\n\tfn x() {}"];
        for text in texts.into_iter().chain([include_str!("lib.rs")]) {
            assert_eq!(encode(text), published.encode_ordinary(text));
            assert_eq!(count(text), published.count_ordinary(text));
            assert_eq!(width(&encode(text)), Some(text.len()));
        }
        let special = "a<|endoftext|>b<|endofprompt|>";
        assert_eq!(
            o200k().encode_with_special_tokens(special),
            published.encode_with_special_tokens(special)
        );
        assert_eq!(width(&[u32::MAX]), None);
    }
}
