//! Decodes escaped characters in string literals and in HTML.

/// Returns the bytes that a backslash escape represents, and how many bytes after the backslash
/// belong to the escape. Line breaks, tabs and quotes are dropped, because fingerprints ignore
/// them. Additional backslashes, as in nested literals, are dropped too.
pub(crate) fn decode_backslash_escape(rest: &[u8]) -> (impl Iterator<Item = u8> + use<>, usize) {
    let more = rest.iter().take_while(|&&byte| byte == b'\\').count();
    let mut bytes = [0; 4];
    let (length, used) = match rest.get(more) {
        Some(b'n' | b'r' | b't') => (0, 1),
        Some(b'u') => match rest.get(more + 1..more + 5).and_then(parse_hexadecimal) {
            Some(character) => (character.encode_utf8(&mut bytes).len(), 5),
            None => (0, 0),
        },
        _ => (0, 0),
    };
    (bytes.into_iter().take(length), more + used)
}

/// Returns the byte that an HTML character reference represents, and how many bytes after the
/// ampersand belong to the reference. If the ampersand starts no reference, returns the ampersand.
/// Nested HTML has additional `amp;`.
pub(crate) fn decode_html_reference(mut rest: &[u8]) -> (u8, usize) {
    let mut used = 0;
    while let Some(after) = rest.strip_prefix(b"amp;") {
        rest = after;
        used += 4;
    }
    let end = rest.iter().take(7).position(|&byte| byte == b';');
    let byte = end.and_then(|end| match &rest[..end] {
        b"lt" => Some(b'<'),
        b"gt" => Some(b'>'),
        b"quot" => Some(b'"'),
        b"apos" => Some(b'\''),
        b"nbsp" => Some(b' '),
        [b'#', b'x' | b'X', digits @ ..] => to_byte(parse_hexadecimal(digits)?),
        [b'#', digits @ ..] => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    });
    match (byte, end) {
        (Some(byte), Some(end)) if byte < 128 => (byte, used + end + 1),
        _ => (b'&', used),
    }
}

fn to_byte(character: char) -> Option<u8> {
    u8::try_from(u32::from(character)).ok()
}

fn parse_hexadecimal(digits: &[u8]) -> Option<char> {
    let digits = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` would also accept a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| plain)?)
}
