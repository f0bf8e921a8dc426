//! Parses JSON as endpoints send it.
//!
//! Endpoints send JSON that a strict parser rejects: Python's `json.dumps` writes `NaN` and
//! `Infinity`, streams split surrogate pairs, and some servers put raw control characters into
//! strings. Rejecting such text would lose a paid response, so this module repairs it. The repair
//! starts only after the strict parser has rejected the text, so that ordinary responses have no
//! overhead.
//!
//! Half of a surrogate pair cannot be a `char`. A private-use character represents it until the
//! other half arrives ([`SurrogateJoiner`]), or U+FFFD replaces it ([`replace_lone_surrogates`]).

use std::borrow::Cow;

use serde_json::Value;

use super::neutral::Delta;

/// Represents the surrogate D800. The next 2,047 characters represent the other surrogates.
const SURROGATE_BASE: u32 = 0x10_F000;
const SURROGATE_COUNT: u32 = 0x800;

/// Parses JSON. If this fails, returns the strict parser's error.
pub fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(value),
        Err(error) => {
            serde_json::from_str(&repair(&String::from_utf8_lossy(bytes))).map_err(|_| error)
        }
    }
}

/// Returns repaired text, which is valid JSON if a lenient parser would accept `text`.
pub fn repair(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut in_string = false;
    while let Some(next) = rest.chars().next() {
        if !in_string {
            if let Some((word, by)) =
                NON_JSON_LITERALS.iter().find(|(word, _)| rest.starts_with(word))
            {
                out.push_str(by);
                rest = &rest[word.len()..];
                continue;
            }
            in_string = next == '"';
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        }
        let mut taken = next.len_utf8();
        match next {
            '"' => {
                in_string = false;
                out.push('"');
            }
            '\\' => match parse_unicode_escape(rest) {
                Some(high @ 0xD800..=0xDBFF) => {
                    match rest.get(6..).and_then(parse_unicode_escape) {
                        Some(0xDC00..=0xDFFF) => {
                            out.push_str(&rest[..12]);
                            taken = 12;
                        }
                        _ => {
                            out.push(encode_surrogate(high));
                            taken = 6;
                        }
                    }
                }
                Some(low @ 0xDC00..=0xDFFF) => {
                    out.push(encode_surrogate(low));
                    taken = 6;
                }
                _ => {
                    let escaped = rest[1..].chars().next();
                    taken += escaped.map_or(0, char::len_utf8);
                    out.push_str(&rest[..taken]);
                }
            },
            control if (control as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", control as u32));
            }
            other => out.push(other),
        }
        rest = &rest[taken..];
    }
    out
}

/// Number literals of Python and JavaScript that JSON does not have, longest first.
const NON_JSON_LITERALS: [(&str, &str); 4] =
    [("-Infinity", "null"), ("Infinity", "null"), ("NaN", "null"), ("undefined", "null")];

/// Returns the code unit of an escape (`\uXXXX`) at the start of the text.
fn parse_unicode_escape(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

fn encode_surrogate(unit: u32) -> char {
    char::from_u32(SURROGATE_BASE + (unit - 0xD800)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the code unit of a character that represents half of a pair.
fn decode_surrogate(c: char) -> Option<u32> {
    let at = (c as u32).checked_sub(SURROGATE_BASE)?;
    (at < SURROGATE_COUNT).then_some(0xD800 + at)
}

fn join_surrogates(high: char, low: char) -> Option<char> {
    let (high, low) = (decode_surrogate(high)?, decode_surrogate(low)?);
    ((0xD800..0xDC00).contains(&high) && low >= 0xDC00)
        .then(|| char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)))
        .flatten()
}

/// Joins the halves of pairs in the text. Unpaired halves become U+FFFD.
pub fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| decode_surrogate(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek().and_then(|next| join_surrogates(c, *next)) {
            Some(whole) => {
                out.push(whole);
                chars.next();
            }
            None if decode_surrogate(c).is_some() => out.push(char::REPLACEMENT_CHARACTER),
            None => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Replaces lone surrogates in every string within a value.
pub fn replace_lone_in_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(replaced) = replace_lone_surrogates(text) {
                *text = replaced;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(replace_lone_in_value),
        Value::Object(fields) => fields.values_mut().for_each(replace_lone_in_value),
        _ => {}
    }
}

/// Joins surrogate pairs that a stream split. The first half is held back until the next fragment
/// of the same string arrives.
#[derive(Debug, Default)]
pub struct SurrogateJoiner {
    pending_half: Option<(TextKind, char)>,
}

/// The kind of text that a fragment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Text,
    Refusal,
    Reasoning,
    Arguments(usize),
}

impl SurrogateJoiner {
    /// Returns the fragments with complete characters. `is_last` means that no fragments follow.
    pub fn join(&mut self, deltas: Vec<Delta>, is_last: bool) -> Vec<Delta> {
        if self.pending_half.is_none() && !deltas.iter().any(has_surrogate) {
            return deltas;
        }
        let mut out = Vec::with_capacity(deltas.len() + 1);
        for mut delta in deltas {
            let Some((kind, text)) = text_mut(&mut delta) else {
                out.push(delta);
                continue;
            };
            match self.pending_half.take() {
                Some((before, half)) if before == kind => text.insert(0, half),
                Some((before, _)) => out.push(replacement_delta(before)),
                None => {}
            }
            let end = text.chars().next_back();
            if let Some(half) =
                end.filter(|c| decode_surrogate(*c).is_some_and(|unit| unit < 0xDC00))
            {
                text.pop();
                self.pending_half = Some((kind, half));
            }
            if let Cow::Owned(replaced) = replace_lone_surrogates(text) {
                *text = replaced;
            }
            out.push(delta);
        }
        if is_last && let Some((kind, _)) = self.pending_half.take() {
            out.push(replacement_delta(kind));
        }
        out
    }
}

fn has_surrogate(delta: &Delta) -> bool {
    match delta {
        Delta::Text(text)
        | Delta::Refusal(text)
        | Delta::Reasoning(text)
        | Delta::Arguments { text, .. } => text.chars().any(|c| decode_surrogate(c).is_some()),
        _ => false,
    }
}

fn text_mut(delta: &mut Delta) -> Option<(TextKind, &mut String)> {
    match delta {
        Delta::Text(text) => Some((TextKind::Text, text)),
        Delta::Refusal(text) => Some((TextKind::Refusal, text)),
        Delta::Reasoning(text) => Some((TextKind::Reasoning, text)),
        Delta::Arguments { index, text } => Some((TextKind::Arguments(*index), text)),
        _ => None,
    }
}

fn replacement_delta(kind: TextKind) -> Delta {
    let text = char::REPLACEMENT_CHARACTER.to_string();
    match kind {
        TextKind::Text => Delta::Text(text),
        TextKind::Refusal => Delta::Refusal(text),
        TextKind::Reasoning => Delta::Reasoning(text),
        TextKind::Arguments(index) => Delta::Arguments { index, text },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Delta, SurrogateJoiner, parse, repair, replace_lone_in_value};

    #[test]
    fn parse_accepts_python_json() {
        let read = parse(br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN"}"#);
        assert_eq!(read.expect("JSON"), json!({"a": null, "b": [null, null], "c": "NaN \" NaN"}));
        assert!(parse(b"{\"a\": nothing}").is_err());
        assert_eq!(parse(b"{\"a\": \"x\ty\"}").expect("JSON"), json!({"a": "x\ty"}));
    }

    #[test]
    fn repair_keeps_pairs_and_marks_lone_surrogates() {
        let mut read =
            parse(br#"["\ud83d\ude00", "a\ud83d b", "\ude00", "\\ud83d"]"#).expect("JSON");
        replace_lone_in_value(&mut read);
        assert_eq!(read, json!(["\u{1F600}", "a\u{FFFD} b", "\u{FFFD}", "\\ud83d"]));
        for text in ["", "\"", "\"\\", "\"\\u", "\"\\ud83", "\"\\ud83d", "\"\\ud83d\\u"] {
            repair(text);
        }
    }

    #[test]
    fn joiner_restores_a_split_surrogate_pair() {
        let half = |text: &str| {
            let value = parse(format!("\"{text}\"").as_bytes()).expect("JSON");
            value.as_str().unwrap_or_default().to_owned()
        };
        let mut halves = SurrogateJoiner::default();
        let mut said = String::new();
        for (piece, last) in
            [(half("x\\ud83d"), false), (half("\\ude00y"), false), (half("\\ud83d"), true)]
        {
            for delta in halves.join(vec![Delta::Text(piece)], last) {
                let Delta::Text(text) = delta else { panic!("{delta:?}") };
                said.push_str(&text);
            }
        }
        assert_eq!(said, "x\u{1F600}y\u{FFFD}");
    }
}
