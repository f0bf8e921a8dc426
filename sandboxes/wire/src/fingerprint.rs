//! Fingerprints of text that stay the same under the usual changes in a copy: different whitespace
//! and quotes, trailing commas, markers of diffs, quotations or comments, and escapes of string
//! literals and HTML.
//!
//! Both ends of the channel compute fingerprints, so fingerprints are part of the protocol. Both
//! sides apply every normalization repeatedly: a line has the same fingerprint as an escaped copy,
//! in which the line's own escapes are escaped too. The hashes are not cryptographic. Their purpose
//! is to keep the content itself out of the sandbox and to distinguish different content.

use crate::escapes::{decode_backslash_escape, decode_html_reference};

const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;
const MIX_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a byte in a line is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ByteClass {
    Text = 0,
    /// Ignored everywhere: whitespace, quotes and commas.
    Blank = 1,
    /// Ignored at the start of a line: markers of diffs, quotations, comments and columns.
    Mark,
    Backslash,
    Ampersand,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Text; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            0..=b' ' | b'"' | b'\'' | b',' => ByteClass::Blank,
            b'+' | b'-' | b'<' | b'>' | b'#' | b'/' | b'*' | b'|' | b';' | b'%' | b'!' => {
                ByteClass::Mark
            }
            b'\\' => ByteClass::Backslash,
            b'&' => ByteClass::Ampersand,
            _ => ByteClass::Text,
        };
        byte += 1;
    }
    classes
};

/// Returns the hash of the normalized line and its length after normalization, in bytes. Returns
/// `None` if nothing is left.
pub fn hash_line(line: &[u8]) -> Option<(u64, usize)> {
    let mut left =
        LineHasher { hash: HASH_START, hashed_bytes: 0, block: [0; BLOCK_BYTES], block_len: 0 };
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        at += 1;
        let class = CLASSES[usize::from(byte)];
        // Nearly every byte takes this path, which has no unpredictable branch. A scan spends most
        // of its time here.
        if class as u8 <= ByteClass::Blank as u8 {
            left.push(byte, class == ByteClass::Text);
            continue;
        }
        match class {
            ByteClass::Backslash => {
                let (bytes, used) = decode_backslash_escape(&line[at..]);
                bytes.for_each(|byte| left.push_decoded(byte));
                at += used;
            }
            ByteClass::Ampersand => {
                let (byte, used) = decode_html_reference(&line[at..]);
                left.push_decoded(byte);
                at += used;
            }
            ByteClass::Text | ByteClass::Blank | ByteClass::Mark => left.push_decoded(byte),
        }
    }
    left.finish()
}

/// Returns the bytes that [`hash_line`] hashes. If the text has several lines, they are not
/// separated, and only the first line's markers are removed.
pub fn normalize(text: &[u8]) -> Vec<u8> {
    let mut left = Vec::with_capacity(text.len());
    let mut at = 0;
    let mut keep = |byte: u8| match CLASSES[usize::from(byte)] {
        ByteClass::Blank | ByteClass::Backslash => {}
        ByteClass::Mark if left.is_empty() => {}
        ByteClass::Mark | ByteClass::Ampersand | ByteClass::Text => left.push(byte),
    };
    while let Some(&byte) = text.get(at) {
        at += 1;
        match CLASSES[usize::from(byte)] {
            ByteClass::Backslash => {
                let (bytes, used) = decode_backslash_escape(&text[at..]);
                bytes.for_each(&mut keep);
                at += used;
            }
            ByteClass::Ampersand => {
                let (byte, used) = decode_html_reference(&text[at..]);
                keep(byte);
                at += used;
            }
            ByteClass::Text | ByteClass::Blank | ByteClass::Mark => keep(byte),
        }
    }
    left
}

/// Number of bytes to hash at a time.
const BLOCK_BYTES: usize = 64;

struct LineHasher {
    hash: u64,
    /// Number of bytes hashed so far.
    hashed_bytes: usize,
    block: [u8; BLOCK_BYTES],
    block_len: usize,
}

impl LineHasher {
    #[inline(always)]
    fn push(&mut self, byte: u8, is_significant: bool) {
        self.block[self.block_len % BLOCK_BYTES] = byte;
        self.block_len += usize::from(is_significant);
        if self.block_len == BLOCK_BYTES {
            self.mix();
        }
    }

    /// Adds a decoded character, as if it had not been escaped.
    fn push_decoded(&mut self, byte: u8) {
        let counts = match CLASSES[usize::from(byte)] {
            ByteClass::Blank | ByteClass::Backslash => false,
            ByteClass::Mark => self.hashed_bytes + self.block_len > 0,
            ByteClass::Ampersand | ByteClass::Text => true,
        };
        self.push(byte, counts);
    }

    fn mix(&mut self) {
        let end = self.block_len.next_multiple_of(8);
        self.block[self.block_len..end].fill(0);
        for word in self.block[..end].as_chunks().0 {
            let word = u64::from_be_bytes(*word);
            self.hash = (self.hash.rotate_left(23) ^ word).wrapping_mul(MIX_MULTIPLIER);
        }
        self.hashed_bytes += self.block_len;
        self.block_len = 0;
    }

    fn finish(mut self) -> Option<(u64, usize)> {
        self.mix();
        let hash = (self.hash ^ self.hashed_bytes as u64).wrapping_mul(MIX_MULTIPLIER);
        (self.hashed_bytes > 0).then_some((hash ^ hash >> 32, self.hashed_bytes))
    }
}

/// Returns the hash of a window, given its lines' hashes.
pub fn hash_window(lines: &[u64]) -> u64 {
    lines.iter().fold(HASH_START ^ lines.len() as u64, |hash, line| {
        (hash.rotate_left(23) ^ line).wrapping_mul(MIX_MULTIPLIER)
    })
}

/// Returns the hash of bytes that are not normalized.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(HASH_START, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(HASH_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_same(copies: &[&str]) {
        for text in copies {
            assert_eq!(hash_line(text.as_bytes()), hash_line(copies[0].as_bytes()), "{text}");
            assert_eq!(normalize(text.as_bytes()), normalize(copies[0].as_bytes()), "{text}");
        }
    }

    #[test]
    fn copy_has_the_same_fingerprint() {
        assert_same(&[
            "    return {\"a\": x, }",
            "\treturn {'a':x}",
            "+    return { 'a' : x }\r",
            "-return{\"a\":x}",
            "> return {\\\"a\\\": x,}",
            "return {'a': x}",
            "#     return {'a': x}",
            "//return {'a': x}",
            " *  return {'a': x}",
            ";; return {'a': x}",
            "\"    return {\\\"a\\\": x}\\n\"",
            "\"return {'a': x}\\r\\n\" \\",
            "    return {&quot;a&quot;: x}",
            "&gt;&nbsp;return {&#39;a&#x27;: x}",
            "\\treturn {\\u0022a\\u0022: x}",
        ]);
        assert_ne!(hash_line(b"return {'b': x}"), hash_line(b"return {'a': x}"));
        assert_eq!(hash_line(b"  \t"), None);
        assert_eq!(hash_line(b"+"), None);
        assert_eq!(hash_line(b"\" # \\n\","), None);
    }

    #[test]
    fn doubly_escaped_copy_has_the_same_fingerprint() {
        assert_same(&[
            r#"    print("a\tb\n" if x < y && z else '\\', r"\d+\n")"#,
            r#""    print(\"a\\tb\\n\" if x < y && z else '\\\\', r\"\\d+\\n\")\n","#,
            r#"\"    print(\\\"a\\\\tb\\\\n\\\" if x \u003c y \u0026\u0026 z else '\\\\\\\\', r\\\"\\\\d+\\\\n\\\")\\n\""#,
            "print(&quot;a\\tb\\n&quot; if x &lt; y &amp;&amp; z else &#x27;\\\\&#x27;, r&#34;\\d+\\n&#34;)",
        ]);
        assert_same(&[
            "return text.replace('<', '&lt;').replace('é', '&amp;')",
            "return text.replace(&#39;&lt;&#39;, &#39;&amp;lt;&#39;).replace(&#39;é&#39;, &#39;&amp;amp;&#39;)",
            "\"return text.replace('<', '&lt;').replace('\\u00e9', '&amp;')\\n\"",
        ]);
        // This text looks escaped but is not.
        assert_same(&["a & b &c; d &#; \\", "'a & b &c; d &#; \\\\'"]);
        assert_ne!(hash_line(b"x = a & b"), hash_line(b"x = a b"));
        assert_ne!(hash_line(b"\\u00e"), hash_line(b"\\u00f"));
    }

    #[test]
    fn window_depends_on_order_and_number_of_lines() {
        assert_ne!(hash_window(&[1, 2]), hash_window(&[2, 1]));
        assert_ne!(hash_window(&[1]), hash_window(&[1, 1]));
        assert_ne!(hash_window(&[0]), hash_window(&[0, 0]));
    }
}
