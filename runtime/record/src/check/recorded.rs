//! JSON that is stored both in a journal and in a file.

use memchr::memchr2;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// JSON as written in the journal. It is kept as text, because text can be compared with a file
/// without parsing. This matters in a run of ten thousand trials, where nearly every file matches
/// its journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RecordedJson(Box<RawValue>);

impl PartialEq for RecordedJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl RecordedJson {
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Whether a file contains the same JSON, ignoring whitespace and key order.
    pub(crate) fn matches_file(&self, file: &[u8]) -> bool {
        let value = |text| serde_json::from_slice::<Value>(text).ok();
        let recorded = self.0.get().as_bytes();
        JsonTokens(recorded).eq(JsonTokens(file))
            || value(file).is_some_and(|said| value(recorded) == Some(said))
    }
}

/// The tokens of JSON text: strings, words (numbers and literals) and punctuation.
struct JsonTokens<'a>(&'a [u8]);

impl<'a> Iterator for JsonTokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        let length = match text.first()? {
            b'"' => string_length(text),
            byte if is_word_byte(byte) => {
                text.iter().position(|byte| !is_word_byte(byte)).unwrap_or(text.len())
            }
            _ => 1,
        };
        let (token, rest) = text.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

fn is_word_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(byte)
}

/// Returns the length of a string including both quotes. If the closing quote is missing, returns
/// the length of the rest.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_file_ignores_layout_and_key_order() {
        let recorded: RecordedJson =
            serde_json::from_str(r#"{"a":"x \" y","b":[1, 2],"c":1.0}"#).unwrap();
        for same in [
            r#"{"a":"x \" y","b":[1,2],"c":1.0}"#,
            "{\n  \"a\": \"x \\\" y\",\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": 1.0\n}\n",
            r#"{"c":1.0,"b":[1,2],"a":"x \" y"}"#,
            r#"{"a":"x \u0022 y","b":[1,2],"c":1.0}"#,
        ] {
            assert!(recorded.matches_file(same.as_bytes()), "{same}");
        }
        for other in [
            r#"{"a":"x \"  y","b":[1,2],"c":1.0}"#,
            r#"{"a":"x \" y","b":[12],"c":1.0}"#,
            r#"{"a":"x \" y","b":[1,2],"c":1.0}}"#,
            r#"{"a":"x \" y","b":[1,2],"c":1"#,
            "",
        ] {
            assert!(!recorded.matches_file(other.as_bytes()), "{other}");
        }
        let two: RecordedJson = serde_json::from_str("12").unwrap();
        assert!(!two.matches_file(b"1 2"), "invalid JSON must not match by dropping spaces");
    }
}
