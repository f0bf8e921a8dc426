//! Quoted names: Git writes names with unusual bytes in C style, `"a/\303\251"`.

/// Quotes a name as Git does with `core.quotePath` enabled.
pub(crate) fn quote(name: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    if name.iter().all(plain) {
        return name.to_vec();
    }
    let mut out = vec![b'"'];
    for byte in name {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x20..=0x7e => out.push(*byte),
            _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// Parses a quoted name at the start of `text`. Returns the name and the text after the closing
/// quote, or `None` if there is no complete quoted name.
pub(crate) fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut out = Vec::new();
    loop {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        match byte {
            b'"' => return Some((out, rest)),
            b'\\' => {
                let (&escape, tail) = rest.split_first()?;
                rest = tail;
                out.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let (digits, tail) = rest.split_at_checked(2)?;
                        rest = tail;
                        let mut value = u32::from(escape - b'0');
                        for digit in digits {
                            value = value * 8 + char::from(*digit).to_digit(8)?;
                        }
                        u8::try_from(value).ok()?
                    }
                    _ => return None,
                });
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_round_trips_every_byte() {
        let all: Vec<u8> = (1..=255).collect();
        let quoted = quote(&all);
        assert_eq!(unquote(&quoted), Some((all, &b""[..])));
        assert_eq!(quote(b"a b"), b"a b");
        assert_eq!(quote("é".as_bytes()), br#""\303\251""#);
        assert_eq!(unquote(br#""a" "b""#), Some((b"a".to_vec(), &br#" "b""#[..])));
    }

    #[test]
    fn unquote_returns_none_for_an_incomplete_name() {
        for text in [&br#""abc"#[..], br#""\"#, br#""\4""#, br#""\30""#, br#""\x41""#, b"abc"] {
            assert_eq!(unquote(text), None, "{text:?}");
        }
    }
}
