//! Splits a log into lines of plain text.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

use crate::parsers::text::{pattern, universal_newlines};

/// Terminal control sequences, including hyperlinks.
static ESCAPE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"));

pub fn to_plain_text(log: &[u8]) -> String {
    let text = decode(log);
    ESCAPE_PATTERN.replace_all(&universal_newlines(&text), "").into_owned()
}

/// Decodes the text and removes its byte order mark. Text without a mark is UTF-8.
fn decode(log: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| -> Cow<'static, str> {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Cow::Owned(chars.collect::<String>())
    };
    match log {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(log),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_plain_text_removes_byte_order_mark_and_escapes() {
        let wide = |unit: fn(u16) -> [u8; 2]| {
            "\u{feff}<a>\u{1f600}".encode_utf16().flat_map(unit).collect::<Vec<u8>>()
        };
        for log in [
            "\u{feff}<a>\u{1f600}".as_bytes().to_vec(),
            wide(u16::to_le_bytes),
            wide(u16::to_be_bytes),
            "\x1b[1m<a>\x1b[0m\u{1f600}".as_bytes().to_vec(),
        ] {
            assert_eq!(to_plain_text(&log), "<a>\u{1f600}");
        }
        assert_eq!(to_plain_text(b"a\r\nb\xff"), "a\nb\u{fffd}");
    }
}
