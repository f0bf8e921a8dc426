//! Changes a literal to another value of the same type.

use super::source::{Language, TokenKind};

/// Returns the literal with a different value, of the same length if possible. Returns `None` if no
/// value is certain to differ.
pub(super) fn changed_literal(text: &str, kind: TokenKind, language: Language) -> Option<String> {
    match kind {
        TokenKind::Number => changed_number(text, language),
        TokenKind::Text => changed_string(text),
        TokenKind::Char => {
            let inner = text.find('\'')? + 1;
            let end = text.len() - 1;
            match text.get(inner..end)? {
                escaped if escaped.starts_with('\\') => None,
                one => {
                    let other =
                        one.bytes().next().and_then(other_alphanumeric).map_or('x', char::from);
                    Some(format!("{}{other}'", &text[..inner]))
                }
            }
        }
        TokenKind::Word => match text {
            "true" => Some("false".to_owned()),
            "false" => Some("true".to_owned()),
            _ => None,
        },
        TokenKind::Other | TokenKind::Arrow | TokenKind::Sign(_) => None,
    }
}

/// Returns another letter or digit of the same kind.
fn other_alphanumeric(byte: u8) -> Option<u8> {
    match byte {
        b'z' => Some(b'a'),
        b'Z' => Some(b'A'),
        b'9' => Some(b'8'),
        byte if byte.is_ascii_alphanumeric() => Some(byte + 1),
        _ => None,
    }
}

fn changed_string(text: &str) -> Option<String> {
    let quote = text.find(['"', '\'', '`'])?;
    let end = text.rfind(['"', '\'', '`'])?;
    let inner = text.get(quote + 1..end)?;
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            // In escapes such as `\x41`, `\u0041` and `\u{41}`, no single character can be
            // replaced.
            let more = match chars.next() {
                Some((_, 'x')) => 2,
                Some((at, 'u')) if inner[at + 1..].starts_with('{') => inner[at..].find('}')?,
                Some((_, 'u')) => 4,
                Some((_, c)) if c.is_ascii_digit() => return None,
                _ => 0,
            };
            chars.by_ref().take(more).for_each(drop);
        } else if let Some(other) = u8::try_from(c).ok().and_then(other_alphanumeric) {
            let at = quote + 1 + at;
            return Some(format!("{}{}{}", &text[..at], char::from(other), &text[at + 1..]));
        }
    }
    Some(format!("{}x{}", &text[..end], &text[end..]))
}

/// Changes a Rust integer by a small amount, because its type is bounded. Changes any other number
/// by a large amount, because an approximate comparison may treat close numbers as equal.
fn changed_number(text: &str, language: Language) -> Option<String> {
    let head = text.get(..2).map(str::to_ascii_lowercase);
    let radix = match head.as_deref() {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => 10,
    };
    let start = if radix == 10 { 0 } else { 2 };
    let digits = text[start..].bytes().take_while(|byte| {
        let is_digit = char::from(*byte).is_digit(radix);
        is_digit || *byte == b'_'
    });
    let end = start + digits.count();
    let is_float = radix == 10 && text[end..].starts_with(['.', 'e', 'E', 'f']);
    let is_digit = |at: &usize| text.as_bytes()[*at] != b'_';
    let at = match language {
        Language::Rust if !is_float => (start..end).rev().find(is_digit)?,
        _ => (start..end).find(is_digit)?,
    };
    let digit = text[at..=at].chars().next()?.to_digit(radix)?;
    let is_leading = at == start && radix == 10 && end - start > 1;
    let other = match digit {
        0 => 1,
        // A leading zero would make the number a different kind of literal.
        1 if is_leading => 2,
        digit => digit - 1,
    };
    let other = char::from_digit(other, radix)?;
    Some(format!("{}{other}{}", &text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_literal_has_another_value_of_the_same_type() {
        for (text, kind, language, now) in [
            ("3", TokenKind::Number, Language::JavaScript, "2"),
            ("0", TokenKind::Number, Language::JavaScript, "1"),
            ("1", TokenKind::Number, Language::JavaScript, "0"),
            ("10", TokenKind::Number, Language::JavaScript, "20"),
            ("0.30000000000000004", TokenKind::Number, Language::JavaScript, "1.30000000000000004"),
            ("9007199254740993", TokenKind::Number, Language::JavaScript, "8007199254740993"),
            ("0xff", TokenKind::Number, Language::JavaScript, "0xef"),
            ("5n", TokenKind::Number, Language::JavaScript, "4n"),
            ("255u8", TokenKind::Number, Language::Rust, "254u8"),
            ("127", TokenKind::Number, Language::Rust, "126"),
            ("1_000i64", TokenKind::Number, Language::Rust, "1_001i64"),
            ("1.5", TokenKind::Number, Language::Rust, "0.5"),
            ("2f64", TokenKind::Number, Language::Rust, "1f64"),
            ("0b10", TokenKind::Number, Language::Rust, "0b11"),
            ("'IV'", TokenKind::Text, Language::JavaScript, "'JV'"),
            ("\"\"", TokenKind::Text, Language::JavaScript, "\"x\""),
            ("'-'", TokenKind::Text, Language::JavaScript, "'-x'"),
            ("\"\\nz\"", TokenKind::Text, Language::Rust, "\"\\na\""),
            ("r#\"a\"#", TokenKind::Text, Language::Rust, "r#\"b\"#"),
            ("'\\x41b'", TokenKind::Text, Language::JavaScript, "'\\x41c'"),
            ("'\\u{1f600}'", TokenKind::Text, Language::JavaScript, "'\\u{1f600}x'"),
            ("'\\u0041b'", TokenKind::Text, Language::JavaScript, "'\\u0041c'"),
            ("'c'", TokenKind::Char, Language::Rust, "'d'"),
            ("'-'", TokenKind::Char, Language::Rust, "'x'"),
            ("true", TokenKind::Word, Language::Rust, "false"),
        ] {
            assert_eq!(changed_literal(text, kind, language).as_deref(), Some(now), "{text}");
        }
        for (text, kind) in [
            ("'\\041'", TokenKind::Text),
            ("'\\n'", TokenKind::Char),
            ("null", TokenKind::Word),
            ("/a/", TokenKind::Other),
        ] {
            assert_eq!(changed_literal(text, kind, Language::JavaScript), None, "{text}");
        }
    }
}
