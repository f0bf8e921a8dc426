//! Parses JSON as written by Python.

use std::borrow::Cow;

use serde_json::Value;

/// Parses JSON as written by Python's `json` module.
///
/// Python writes the literals `NaN`, `Infinity` and `-Infinity`, which are not JSON: each becomes
/// `null`. Python also escapes unpaired surrogates: each becomes U+FFFD.
///
/// # Errors
/// Fails if the text is invalid JSON for any other reason. The error refers to the original text.
pub fn parse_python_json(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text).or_else(|error| match repair_json(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(repaired) => serde_json::from_slice(&repaired).map_err(|_| error),
    })
}

/// Converts the text to standard JSON. Returns the text itself if there is nothing to repair.
fn repair_json(text: &[u8]) -> Cow<'_, [u8]> {
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
                b'\\' => parse_escape(rest),
                _ => (1, None),
            }
        } else if rest[0] == b'"' {
            in_string = true;
            (1, None)
        } else {
            match ["NaN", "Infinity", "-Infinity"].iter().find(|word| starts_with_word(rest, word))
            {
                Some(word) => (word.len(), Some(b"null")),
                None if rest[0].is_ascii_alphanumeric() || rest[0] == b'_' => {
                    (word_len(rest), None)
                }
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

/// Returns the length of the escape at the start of the text, and its replacement if it needs one.
fn parse_escape(text: &[u8]) -> (usize, Option<&'static [u8]>) {
    match parse_code_unit(text) {
        // A complete surrogate pair is kept.
        Some(0xd800..=0xdbff)
            if matches!(text.get(6..).and_then(parse_code_unit), Some(0xdc00..=0xdfff)) =>
        {
            (12, None)
        }
        Some(0xd800..=0xdfff) => (6, Some(b"\\ufffd")),
        _ => (2, None),
    }
}

/// Parses the code unit of `\uXXXX`.
fn parse_code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

fn starts_with_word(text: &[u8], word: &str) -> bool {
    let after = text.strip_prefix(word.as_bytes());
    after.is_some_and(|after| word_len(after) == 0)
}

/// Returns the length of the word at the start of the text.
fn word_len(text: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn python_json_accepts_python_literals_and_unpaired_surrogates() {
        for (text, value) in [
            (
                r#"{"a": NaN, "b": Infinity, "c": -Infinity}"#,
                json!({"a": null, "b": null, "c": null}),
            ),
            (r"[NaN,-Infinity]", json!([null, null])),
            ("NaN", json!(null)),
            // Literals and escapes inside strings are unchanged.
            (r#"{"a": "NaN \" Infinity", "b": NaN}"#, json!({"a": "NaN \" Infinity", "b": null})),
            (r#"{"a": "x\\", "b": NaN}"#, json!({"a": "x\\", "b": null})),
            // Unpaired surrogates, and a complete pair.
            (
                r#"["\ud83d", "\udc00x", "\ud83d\ud83d\ude00"]"#,
                json!(["\u{fffd}", "\u{fffd}x", "\u{fffd}😀"]),
            ),
            (r#"["\uD83D\uDE00", "\\ud83d", "\ud83d"]"#, json!(["😀", "\\ud83d", "\u{fffd}"])),
            (r#"{"\ud83d": 1}"#, json!({"\u{fffd}": 1})),
            (r#"{"a": 1e5, "b": [true, null]}"#, json!({"a": 1e5, "b": [true, null]})),
        ] {
            assert_eq!(parse_python_json(text.as_bytes()).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn python_json_errors_refer_to_the_original_text() {
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
            let error = parse_python_json(text.as_bytes()).unwrap_err();
            assert_eq!(
                (error.line(), error.column()),
                (expected.line(), expected.column()),
                "{text}"
            );
        }
    }
}
