//! Finds a key in all its spellings. For example, `sk-a\/b` in a record is a spelling of the key
//! `sk-a/b`.

/// Replacement for a key in a record.
const KEY_PLACEHOLDER: &[u8] = b"[key]";

/// Returns `bytes` without the key, or `None` if the key does not occur. The key may be plain, or
/// have characters escaped as in JSON (`\/`, `\u002f`) or a URL (`%2F`).
///
/// The search is handwritten because a regular expression built from a key could leak the key.
pub(crate) fn redact_key(bytes: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        // A spelling starts with the key's first character or with an escape character.
        let begins = |byte: &u8| key.first() == Some(byte) || matches!(byte, b'\\' | b'%');
        match bytes[at..].iter().position(begins) {
            Some(skipped) => at += skipped,
            None => break,
        }
        match encoded_key_length(&bytes[at..], key) {
            Some(length) if length > 0 => {
                let out = out.get_or_insert_default();
                out.extend_from_slice(&bytes[kept..at]);
                out.extend_from_slice(KEY_PLACEHOLDER);
                at += length;
                kept = at;
            }
            _ => at += 1,
        }
    }
    let mut out = out?;
    out.extend_from_slice(&bytes[kept..]);
    Some(out)
}

/// Returns the length of the key's spelling at the start of a string, if there is one.
///
/// Any run of backslashes may precede a character, because tool arguments are JSON within JSON. The
/// run is removed with the key: a partial escape would make the document invalid.
fn encoded_key_length(text: &[u8], key: &[u8]) -> Option<usize> {
    let mut at = 0;
    for &byte in key {
        let rest = &text[at..];
        let hex = |from: usize| {
            let digits = std::str::from_utf8(rest.get(from..from + 2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let run = rest.iter().take_while(|byte| **byte == b'\\').count();
        at += match &rest[run..] {
            _ if rest.first() == Some(&byte) => 1,
            [first, ..] if *first == byte => run + 1,
            [b'%', ..] if hex(run + 1) == Some(byte) => run + 3,
            [b'u', b'0', b'0', ..] if run > 0 && hex(run + 3) == Some(byte) => run + 5,
            _ => return None,
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::redact_key;

    const KEY: &[u8] = b"sk-MARKED/KEY+123==";

    fn redact(text: &str) -> Option<String> {
        redact_key(text.as_bytes(), KEY).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn every_encoding_of_the_key_is_redacted() {
        for spelling in [
            "sk-MARKED/KEY+123==",
            r"sk-MARKED\/KEY+123==",
            "sk-MARKED%2FKEY%2b123%3D%3d",
            r"sk-MARKED\u002FKEY\u002b123\u003d\u003D",
            r"sk\u002dMARKED\/KEY%2B123=%3D",
            r"sk-MARKED\\/KEY\\u002b123==",
            r"\\sk-MARKED\\\/KEY+123==",
        ] {
            let text = format!("{{\"a\": \"no {spelling}, twice {spelling}\"}}");
            let without = redact(&text).unwrap();
            assert_eq!(without, "{\"a\": \"no [key], twice [key]\"}", "{spelling}");
        }
    }

    #[test]
    fn text_without_the_key_is_unchanged() {
        for text in
            ["", "sk-MARKED", "sk-MARKED/KEY+123=", r"sk-MARKED\u002GKEY+123==", "%", r"\u00"]
        {
            assert_eq!(redact(text), None, "{text}");
        }
        assert_eq!(redact_key(b"\xff sk-MARKED/KEY+123==", KEY).unwrap(), b"\xff [key]");
        assert_eq!(redact("ssk-MARKED/KEY+123==").unwrap(), "s[key]");
    }
}
