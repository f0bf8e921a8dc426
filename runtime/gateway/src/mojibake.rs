//! Detects text that a server or a proxy decoded with the wrong encoding.
//!
//! Streams have no charset in their content type, so some proxies decode their UTF-8 as Latin-1 or
//! Windows-1252. Each character outside of ASCII then arrives as two or more characters, such as
//! `â€“` for a dash.

use serde_json::Value;

use crate::{
    checks::MisdecodedTextCheck,
    codec::neutral::{CollectedResponse, Item},
};

/// The characters of the bytes from 0x80 to 0x9F in Windows-1252. Undefined bytes stay as they are.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

impl MisdecodedTextCheck {
    /// Whether all characters outside of ASCII in a response's text and calls are bytes of UTF-8
    /// that were decoded with another encoding.
    pub(crate) fn is_misdecoded(&self, response: &CollectedResponse) -> bool {
        let counts = response.items.iter().map(|item| match item {
            Item::Text(text) | Item::Refusal(text) => count_misdecoded(text),
            Item::Call(call) => count_in_arguments(&call.arguments),
            Item::Reasoning(_) => Some(0),
        });
        counts.sum::<Option<usize>>().is_some_and(|count| count >= self.least)
    }
}

fn count_in_arguments(arguments: &str) -> Option<usize> {
    if arguments.is_ascii() && !arguments.contains("\\u") {
        return Some(0);
    }
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => count_in_value(&value),
        Err(_) => count_misdecoded(arguments),
    }
}

fn count_in_value(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => count_misdecoded(text),
        Value::Array(list) => list.iter().map(count_in_value).sum(),
        Value::Object(fields) => fields.values().map(count_in_value).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(0),
    }
}

/// Returns how many characters of the original text were decoded with the wrong encoding. Returns
/// `None` if the text also contains other characters outside of ASCII.
fn count_misdecoded(text: &str) -> Option<usize> {
    let runs = text.split(|one: char| one.is_ascii()).filter(|run| !run.is_empty());
    let counts = runs.map(|run| {
        let bytes: Option<Vec<u8>> = run.chars().map(original_byte).collect();
        Some(std::str::from_utf8(&bytes?).ok()?.chars().count())
    });
    counts.sum()
}

fn original_byte(one: char) -> Option<u8> {
    if let Ok(byte) = u8::try_from(one) {
        return Some(byte);
    }
    let place = WINDOWS_1252.iter().position(|other| *other == one)?;
    u8::try_from(0x80 + place).ok()
}

#[cfg(test)]
mod tests {
    use proctor_types::ToolCall;
    use serde_json::json;

    use super::{CollectedResponse, Item, WINDOWS_1252};
    use crate::checks::EndpointChecks;

    fn is_misdecoded(item: Item) -> bool {
        let check = &EndpointChecks::shipped().expect("a valid table").misdecoded;
        check.is_misdecoded(&CollectedResponse { items: vec![item], ..Default::default() })
    }

    /// Decodes the bytes of a string with another encoding.
    fn decode(text: &str, is_windows: bool) -> String {
        let decode_byte = |byte: u8| match byte {
            0x80..=0x9f if is_windows => WINDOWS_1252[usize::from(byte) - 0x80],
            _ => char::from(byte),
        };
        text.bytes().map(decode_byte).collect()
    }

    #[test]
    fn text_in_the_wrong_encoding_is_detected() {
        for text in ["LETTERS = \"ⅠⅤⅩ\"", "café – naïve", "漢字 😀"] {
            for broken in [decode(text, false), decode(text, true)] {
                assert!(is_misdecoded(Item::Text(broken.clone())), "{broken}");
                let arguments = json!({"command": format!("echo {broken}")}).to_string();
                // Many servers escape the characters.
                let escape = |one: char| match one.is_ascii() {
                    true => one.to_string(),
                    false => format!("\\u{:04x}", u32::from(one)),
                };
                let escaped: String = arguments.chars().map(escape).collect();
                for arguments in [arguments, escaped] {
                    let call = ToolCall { id: "a".into(), name: "shell".into(), arguments };
                    assert!(is_misdecoded(Item::Call(call)), "{broken}");
                }
            }
            assert!(!is_misdecoded(Item::Text(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn honest_text_is_not_misdecoded() {
        for text in [
            "",
            "plain",
            "“It works” — it’s done…",
            "Größe: 5 µm, «où», señor, ¿qué?",
            // Only one character.
            "the cafÃ© of an old file",
            "cafÃ© Ã© Ã©, not café",
        ] {
            assert!(!is_misdecoded(Item::Text(text.to_owned())), "{text}");
        }
    }
}
