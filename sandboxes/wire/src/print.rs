//! Fingerprints of text that survive what people and tools do to a copy: other white space, other
//! quotes, a trailing comma, the marks of a diff or of a quotation, JSON's escapes.
//!
//! Both ends of the channel compute them, so they are part of the grammar. The hashes are not
//! cryptographic: they keep the content out of the room, and two different texts apart.

const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// What is left of one line, as a hash and its length in bytes; `None` where nothing is.
pub fn line(line: &[u8]) -> Option<(u64, usize)> {
    let mut hash = START;
    let mut length = 0;
    for &byte in line {
        if byte <= b' ' || matches!(byte, b'"' | b'\'' | b'\\' | b',') {
            continue;
        }
        if length == 0 && matches!(byte, b'+' | b'-' | b'<' | b'>') {
            continue;
        }
        hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        length += 1;
    }
    (length > 0).then_some((hash, length))
}

/// The hash of successive lines' hashes.
pub fn window(lines: &[u64]) -> u64 {
    lines.iter().fold(START ^ lines.len() as u64, |hash, line| {
        (hash.rotate_left(23) ^ line).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// The hash of bytes as they are.
pub fn bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(START, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_fingerprint() {
        let same: [&[u8]; 6] = [
            b"    return {\"a\": x, }",
            b"\treturn {'a':x}",
            b"+    return { 'a' : x }\r",
            b"-return{\"a\":x}",
            b"> return {\\\"a\\\": x,}",
            b"return {'a': x}",
        ];
        for text in same {
            assert_eq!(line(text), line(same[0]), "{}", String::from_utf8_lossy(text));
        }
        assert_ne!(line(b"return {'b': x}"), line(same[0]));
        assert_eq!(line(b"  \t"), None);
        assert_eq!(line(b"+"), None);
    }

    #[test]
    fn windows_know_the_order_and_the_number_of_their_lines() {
        assert_ne!(window(&[1, 2]), window(&[2, 1]));
        assert_ne!(window(&[1]), window(&[1, 1]));
        assert_ne!(window(&[0]), window(&[0, 0]));
    }
}
