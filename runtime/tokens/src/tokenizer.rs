//! A model's own tokenizer, loaded from its `tokenizer.json`.
//!
//! Supports byte-level BPE, which current open models use (Qwen, Llama 3, DeepSeek, newer Mistral
//! models). Text is split by the file's own patterns, and `tiktoken-rs` applies the file's own
//! merges. Special tokens are treated as plain text, and normalization is skipped. Neither changes
//! the count for code.
//!
//! The crate `tokenizers` is not used: it would add 16 crates (rayon, serde helpers, Unicode
//! tables) for tokenizer types that none of these models use.

use std::fmt;

use fancy_regex::Regex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use tiktoken_rs::{CoreBPE, Rank};

/// GPT-2's pattern, the default of `ByteLevel`.
const BYTE_LEVEL_PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Counts a model's tokens.
pub struct Tokenizer {
    split_patterns: Vec<Regex>,
    encoder: CoreBPE,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("cuts", &self.split_patterns.len())
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    pre_tokenizer: Value,
    model: TokenizerModel,
}

#[derive(Deserialize)]
struct TokenizerModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    merges: Vec<Merge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Text(String),
    Pair(String, String),
}

impl Tokenizer {
    /// Parses a `tokenizer.json`.
    ///
    /// # Errors
    /// Fails if the file cannot be used. The error says why.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let file: TokenizerFile = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a tokenizer.json: {error}"))?;
        let kind = file.model.kind.as_deref().unwrap_or("BPE");
        if kind != "BPE" || file.model.merges.is_empty() {
            return Err(format!(
                "unsupported model {kind}; only byte-pair encodings (BPE with merges) are supported"
            ));
        }
        let mut patterns = Vec::new();
        let byte_level = collect_patterns(&file.pre_tokenizer, &mut patterns)?;
        if !byte_level {
            return Err("not a byte-level tokenizer (no pre_tokenizer `ByteLevel`)".into());
        }
        let cuts = patterns
            .iter()
            .map(|pattern| {
                Regex::new(pattern).map_err(|error| format!("invalid pattern {pattern:?}: {error}"))
            })
            .collect::<Result<_, _>>()?;
        let bytes_of = char_to_byte_map();
        let mut ranks: FxHashMap<Vec<u8>, Rank> =
            (0..=255).map(|byte| (vec![byte], Rank::from(byte))).collect();
        for merge in &file.model.merges {
            let (a, b) = match merge {
                Merge::Pair(a, b) => (a.as_str(), b.as_str()),
                Merge::Text(text) => {
                    text.split_once(' ').ok_or_else(|| format!("merge {text:?} is not a pair"))?
                }
            };
            let token: Option<Vec<u8>> =
                a.chars().chain(b.chars()).map(|c| bytes_of.get(&c).copied()).collect();
            let token =
                token.ok_or_else(|| format!("merge {a:?} {b:?} does not consist of bytes"))?;
            let next = ranks.len() as Rank;
            ranks.entry(token).or_insert(next);
        }
        let merges =
            CoreBPE::new(ranks, Default::default(), "(?s).+").map_err(|error| error.to_string())?;
        Ok(Self { split_patterns: cuts, encoder: merges })
    }

    /// Returns the number of tokens in a string.
    pub fn count(&self, text: &str) -> usize {
        self.count_pieces(text, &self.split_patterns)
    }

    fn count_pieces(&self, text: &str, split_patterns: &[Regex]) -> usize {
        let Some((cut, rest)) = split_patterns.split_first() else {
            return if text.is_empty() { 0 } else { self.encoder.count_ordinary(text) };
        };
        let (mut count, mut done) = (0, 0);
        // If the pattern fails on a string, the rest is treated as one piece.
        for found in cut.find_iter(text).map_while(Result::ok) {
            count += self.count_pieces(&text[done..found.start()], rest);
            count += self.count_pieces(found.as_str(), rest);
            done = found.end();
        }
        count + self.count_pieces(&text[done..], rest)
    }
}

/// Adds the patterns of a pre-tokenizer. Returns whether its pieces are byte-level.
fn collect_patterns(pre_tokenizer: &Value, patterns: &mut Vec<String>) -> Result<bool, String> {
    match pre_tokenizer["type"].as_str() {
        Some("Sequence") => {
            let mut bytes = false;
            for part in pre_tokenizer["pretokenizers"].as_array().into_iter().flatten() {
                bytes |= collect_patterns(part, patterns)?;
            }
            Ok(bytes)
        }
        Some("ByteLevel") => {
            if pre_tokenizer["use_regex"].as_bool() != Some(false) {
                patterns.push(BYTE_LEVEL_PATTERN.into());
            }
            Ok(true)
        }
        Some("Split") => {
            let (behavior, inverted) =
                (pre_tokenizer["behavior"].as_str(), pre_tokenizer["invert"].as_bool());
            let pattern = pre_tokenizer["pattern"]["Regex"].as_str();
            match (behavior, inverted, pattern) {
                // Inverted `Removed` keeps each match as a piece. If the pattern matches
                // everything, the pieces are the same as with `Isolated`.
                (Some("Isolated"), _, Some(pattern))
                | (Some("Removed"), Some(true), Some(pattern)) => {
                    patterns.push(pattern.into());
                    Ok(false)
                }
                _ => Err(format!(
                    "pre_tokenizer `Split` with behavior {behavior:?} is not supported"
                )),
            }
        }
        Some("Digits") => {
            let one_by_one = pre_tokenizer["individual_digits"].as_bool() == Some(true);
            patterns.push(if one_by_one { r"\p{N}" } else { r"\p{N}+" }.into());
            Ok(false)
        }
        Some(other) => Err(format!("pre_tokenizer `{other}` is not supported")),
        None => Ok(false),
    }
}

/// Returns the byte that each vocabulary character represents. GPT-2 maps bytes that are not
/// printable to other characters.
fn char_to_byte_map() -> FxHashMap<char, u8> {
    let visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    (0..=255_u8)
        .filter_map(|byte| {
            let code = match visible(byte) {
                true => u32::from(byte),
                false => {
                    next += 1;
                    next - 1
                }
            };
            Some((char::from_u32(code)?, byte))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_tokenizer(pre_tokenizer: Value, merges: Value) -> Result<Tokenizer, String> {
        let file = json!({"pre_tokenizer": pre_tokenizer, "model": {"type": "BPE", "vocab": {}, "merges": merges}});
        Tokenizer::parse(file.to_string().as_bytes())
    }

    #[test]
    fn tokenizer_applies_the_patterns_and_merges_of_its_file() {
        let level = json!({"type": "ByteLevel", "use_regex": true});
        let one = parse_tokenizer(level, json!(["a b", ["ab", "c"], "Ġ ab"])).unwrap();
        assert_eq!(
            [one.count(""), one.count("abc"), one.count("abc ab"), one.count("abcab")],
            [0, 1, 2, 2]
        );
        assert_eq!(one.count("é"), 2, "two bytes");
        let split = json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "use_regex": false}]});
        let one = parse_tokenizer(split, json!([["1", "2"], ["12", "3"], ["123", "4"]])).unwrap();
        assert_eq!(one.count("1234 123"), 4);
    }

    #[test]
    fn parse_error_names_the_unsupported_feature() {
        assert!(
            parse_tokenizer(json!({"type": "Metaspace"}), json!(["a b"]))
                .unwrap_err()
                .contains("Metaspace")
        );
        assert!(parse_tokenizer(json!(null), json!(["a b"])).unwrap_err().contains("byte-level"));
        assert!(
            parse_tokenizer(json!({"type": "ByteLevel"}), json!([]))
                .unwrap_err()
                .contains("merges")
        );
        assert!(Tokenizer::parse(b"{}").unwrap_err().contains("tokenizer.json"));
    }
}
