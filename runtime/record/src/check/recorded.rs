//! JSON that a journal holds and a file repeats.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// As in the journal. Kept as text: of ten thousand trials, nearly every file matches its journal,
/// and comparing text needs no parsing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Recorded(Box<RawValue>);

impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Recorded {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Whether a file has the same content in any layout.
    pub(crate) fn is_said_by(&self, file: &[u8]) -> bool {
        let value = |text| serde_json::from_slice::<Value>(text).ok();
        let recorded = self.0.get().as_bytes();
        tokens(recorded).eq(tokens(file))
            || value(file).is_some_and(|said| value(recorded) == Some(said))
    }
}

/// The bytes of a JSON text without white space between its tokens.
fn tokens(text: &[u8]) -> impl Iterator<Item = u8> {
    let (mut inside, mut escaped) = (false, false);
    text.iter().enumerate().filter_map(move |(at, byte)| {
        if inside {
            inside = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            return Some(*byte);
        }
        inside = *byte == b'"';
        (!byte.is_ascii_whitespace() || parts_words(text, at)).then_some(*byte)
    })
}

/// Whether the white space here separates two words, which occurs only in invalid JSON: `1 2` is
/// not `12`.
fn parts_words(text: &[u8], at: usize) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    at > 0
        && is_word(&text[at - 1])
        && text[at..].iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_ignores_layout_and_key_order() {
        let recorded: Recorded =
            serde_json::from_str(r#"{"a":"x \" y","b":[1, 2],"c":1.0}"#).unwrap();
        for same in [
            r#"{"a":"x \" y","b":[1,2],"c":1.0}"#,
            "{\n  \"a\": \"x \\\" y\",\n  \"b\": [\n    1,\n    2\n  ],\n  \"c\": 1.0\n}\n",
            r#"{"c":1.0,"b":[1,2],"a":"x \" y"}"#,
            r#"{"a":"x \u0022 y","b":[1,2],"c":1.0}"#,
        ] {
            assert!(recorded.is_said_by(same.as_bytes()), "{same}");
        }
        for other in [
            r#"{"a":"x \"  y","b":[1,2],"c":1.0}"#,
            r#"{"a":"x \" y","b":[12],"c":1.0}"#,
            r#"{"a":"x \" y","b":[1,2],"c":1.0}}"#,
            r#"{"a":"x \" y","b":[1,2],"c":1"#,
            "",
        ] {
            assert!(!recorded.is_said_by(other.as_bytes()), "{other}");
        }
        let two: Recorded = serde_json::from_str("12").unwrap();
        assert!(!two.is_said_by(b"1 2"), "a text that is no JSON is none for want of space");
    }
}
