//! JSON as Python writes it.

use std::borrow::Cow;

use serde_json::Value;

/// Parses JSON as written by Python's `json` module.
///
/// Python writes three words that are not JSON, `NaN`, `Infinity` and `-Infinity`: each becomes
/// `null`. It writes half a surrogate pair as a separate escape: each becomes U+FFFD.
///
/// # Errors
/// The text is invalid JSON in another way. The error refers to the original text.
pub fn python_json(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text).or_else(|error| match repaired(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(repaired) => serde_json::from_slice(&repaired).map_err(|_| error),
    })
}

/// The text in standard JSON. Borrowed if there is nothing to repair.
fn repaired(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let (mut copied, mut at, mut in_string) = (0, 0, false);
    while at < text.len() {
        let rest = &text[at..];
        let (taken, written): (usize, Option<&[u8]>) = if in_string {
            match rest[0] {
                b'"' => {
                    in_string = false;
                    (1, None)
                }
                b'\\' => escape(rest),
                _ => (1, None),
            }
        } else if rest[0] == b'"' {
            in_string = true;
            (1, None)
        } else {
            match ["NaN", "Infinity", "-Infinity"].iter().find(|word| is_word(rest, word)) {
                Some(word) => (word.len(), Some(b"null")),
                None if rest[0].is_ascii_alphanumeric() || rest[0] == b'_' => (word(rest), None),
                None => (1, None),
            }
        };
        if let Some(written) = written {
            out.extend_from_slice(&text[copied..at]);
            out.extend_from_slice(written);
            copied = at + taken;
        }
        at += taken;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The length of an escape, and its replacement.
fn escape(rest: &[u8]) -> (usize, Option<&'static [u8]>) {
    match unit(rest) {
        // A complete pair is kept.
        Some(0xd800..=0xdbff) if matches!(rest.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => {
            (12, None)
        }
        Some(0xd800..=0xdfff) => (6, Some(b"\\ufffd")),
        _ => (2, None),
    }
}

/// The code unit of `\uXXXX`.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn is_word(rest: &[u8], wanted: &str) -> bool {
    let after = rest.strip_prefix(wanted.as_bytes());
    after.is_some_and(|after| word(after) == 0)
}

/// The length of the word at the start of the text.
fn word(text: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_python_writes_is_read() {
        for (text, value) in [
            (
                r#"{"a": NaN, "b": Infinity, "c": -Infinity}"#,
                json!({"a": null, "b": null, "c": null}),
            ),
            (r"[NaN,-Infinity]", json!([null, null])),
            ("NaN", json!(null)),
            // Words within a string, and escapes, are unchanged.
            (r#"{"a": "NaN \" Infinity", "b": NaN}"#, json!({"a": "NaN \" Infinity", "b": null})),
            (r#"{"a": "x\\", "b": NaN}"#, json!({"a": "x\\", "b": null})),
            // Halves of pairs, and a complete one.
            (
                r#"["\ud83d", "\udc00x", "\ud83d\ud83d\ude00"]"#,
                json!(["\u{fffd}", "\u{fffd}x", "\u{fffd}😀"]),
            ),
            (r#"["\uD83D\uDE00", "\\ud83d", "\ud83d"]"#, json!(["😀", "\\ud83d", "\u{fffd}"])),
            (r#"{"\ud83d": 1}"#, json!({"\u{fffd}": 1})),
            (r#"{"a": 1e5, "b": [true, null]}"#, json!({"a": 1e5, "b": [true, null]})),
        ] {
            assert_eq!(python_json(text.as_bytes()).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_otherwise_is_told_of_the_text_as_it_stands() {
        for text in [
            "{\"a\": NaNa}",
            "{\"a\": nan}",
            "[NaN",
            "[\"\\ud83d",
            "{\"a\": -NaN}",
            "",
            "\"\\u12\"",
            "\"\\",
        ] {
            let expected = serde_json::from_slice::<Value>(text.as_bytes()).unwrap_err();
            let error = python_json(text.as_bytes()).unwrap_err();
            assert_eq!(
                (error.line(), error.column()),
                (expected.line(), expected.column()),
                "{text}"
            );
        }
    }
}
