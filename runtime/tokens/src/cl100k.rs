//! `cl100k_base`, the encoding by which FEA-Bench's paper counts its contexts.
//!
//! 85,033 of its 100,256 tokens are tokens of `o200k_base` too. `configs/tokenizers/cl100k_base.ranks.lzma` names those
//! by their rank there and has the bytes of the others only: 255 kB in the place of 430.
//!
//! ```text
//! table = shared rank rank rank lengths bytes   ; packed by LZMA
//! shared                                        ; a bit a token, lowest first: it is one of o200k_base's
//! rank                                          ; of each shared token: the highest byte of all ranks there, the middle, the lowest
//! lengths bytes                                 ; of the other tokens: a byte for the length of each, and all their bytes
//! ```

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use tiktoken_rs::{CoreBPE, Rank};

use crate::{ranks_of, tokens, tokens_of, unpacked};

static OWN: &[u8] = include_bytes!("../../../configs/tokenizers/cl100k_base.ranks.lzma");

/// Tokens of the table, special ones left out.
const COUNT: usize = 100_256;
/// Those of them that `o200k_base` has too.
const SHARED: usize = 85_033;

const PATTERN: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

/// Tokens of a text; special tokens in it are plain text.
pub(crate) fn count(text: &str) -> usize {
    static ENCODING: LazyLock<CoreBPE> = LazyLock::new(|| {
        #[expect(clippy::expect_used, reason = "table and pattern are part of the build")]
        CoreBPE::new(ranks(), Default::default(), PATTERN).expect("the carried encoding loads")
    });
    ENCODING.count_ordinary(text)
}

fn ranks() -> FxHashMap<Vec<u8>, Rank> {
    let (other, own) = (tokens(), unpacked(OWN));
    let (bits, rest) = own.split_at(COUNT.div_ceil(8));
    let (shared, rest) = rest.split_at(3 * SHARED);
    let (lengths, bytes) = rest.split_at(COUNT - SHARED);
    let mut shared = ranks_of(shared).map(|rank| &other[rank][..]);
    let mut alone = tokens_of(lengths, bytes);
    let tokens = (0..COUNT).filter_map(|token| match bits[token / 8] >> (token % 8) & 1 {
        1 => shared.next(),
        _ => alone.next(),
    });
    tokens.map(<[u8]>::to_vec).zip(0..).collect()
}

#[cfg(test)]
mod tests {
    use super::{COUNT, count, ranks};

    #[test]
    fn the_carried_table_is_the_published_one() {
        let published = tiktoken_rs::cl100k_base_singleton();
        let carried = ranks();
        assert_eq!(carried.len(), COUNT);
        for (token, rank) in &carried {
            assert_eq!(published.decode_bytes(&[*rank]).unwrap(), *token);
        }
        assert!(published.decode_bytes(&[COUNT as u32]).is_err(), "and it ends there");
        let texts =
            ["", "It'S naïve 漢字 \u{1F600}\r\n\tfn x() {}  \n\n 12345", include_str!("lib.rs")];
        for text in texts.into_iter().chain(["<|endoftext|> a  ", "a \n"]) {
            assert_eq!(count(text), published.count_ordinary(text), "{text}");
        }
    }
}
