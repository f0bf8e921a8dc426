//! Decodes base64 and hexadecimal text.

use crate::expand::Method;

/// Minimum number of letters in a run to decode. A shorter run is too short for a copy.
const MIN_RUN_LETTERS: usize = 128;

/// How many bytes at the start of the decoded content must look like text or a packed format.
const PROBE_BYTES: usize = 128;

const NOT_A_LETTER: u8 = 0xff;

/// Marks line breaks, because long runs are wrapped into lines.
const LINE_BREAK: u8 = 0xfe;

/// The value of each byte as a base64 letter, in either of the two alphabets.
const BASE64_VALUES: [u8; 256] = {
    let mut table = [NOT_A_LETTER; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut value = 0;
    while value < 64 {
        table[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    table[b'-' as usize] = 62;
    table[b'_' as usize] = 63;
    table[b'\n' as usize] = LINE_BREAK;
    table[b'\r' as usize] = LINE_BREAK;
    table
};

/// Decodes each long run of letters, and calls `visit` with the result if it is plausible.
pub fn find_encoded(bytes: &[u8], visit: &mut dyn FnMut(Vec<u8>)) {
    // A run of sufficient length has a letter at one of these positions, wherever it starts.
    let mut at = MIN_RUN_LETTERS - 1;
    while at < bytes.len() {
        let is_letter = |byte: &u8| BASE64_VALUES[usize::from(*byte)] != NOT_A_LETTER;
        if !is_letter(&bytes[at]) {
            at += MIN_RUN_LETTERS;
            continue;
        }
        let from = bytes[..at]
            .iter()
            .rev()
            .take(MIN_RUN_LETTERS)
            .take_while(|byte| is_letter(byte))
            .count();
        let to = at + bytes[at..].iter().take_while(|byte| is_letter(byte)).count();
        if to - (at - from) >= MIN_RUN_LETTERS {
            decode_run(&bytes[at - from..to], visit);
        }
        at = to + MIN_RUN_LETTERS;
    }
}

fn decode_run(letters: &[u8], visit: &mut dyn FnMut(Vec<u8>)) {
    // Wrapped text has lines of equal width and a shorter last line; shorter lines before these are
    // a heading. A list of names is also a run of letters, but its lines vary in length.
    let lines = || letters.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let width = lines().map(<[u8]>::len).max().unwrap_or(0);
    let wide =
        || lines().skip_while(move |line| line.len() < width).take_while(move |l| l.len() == width);
    let count = wide().count();
    if width < MIN_RUN_LETTERS && count * 2 < lines().filter(|line| !line.is_empty()).count() {
        return;
    }
    let is_hexadecimal = wide().flatten().all(u8::is_ascii_hexdigit);
    let (bits, value): (u32, fn(u8) -> Option<u8>) = if is_hexadecimal {
        (4, |byte| (byte as char).to_digit(16).map(|digit| digit as u8))
    } else {
        (6, |byte| Some(BASE64_VALUES[usize::from(byte)]))
    };
    let written = || lines().skip_while(move |line| line.len() < width).take(count + 1);
    let values = || written().flatten().map_while(move |byte| value(*byte));
    let decode = |most: usize| {
        let (mut bytes, mut held, mut count) = (Vec::new(), 0u32, 0);
        for value in values() {
            held = held << bits | u32::from(value);
            count += bits;
            if count >= 8 {
                count -= 8;
                bytes.push((held >> count) as u8);
                if bytes.len() == most {
                    break;
                }
            }
        }
        bytes
    };
    if is_plausible(&decode(PROBE_BYTES)) {
        visit(decode(usize::MAX));
    }
}

/// Returns whether the bytes could be the start of text or of a packed file.
fn is_plausible(head: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The text may be valid but end within a character.
        Err(error) => error.error_len().is_none(),
    };
    let strange = |byte: &&u8| **byte < b' ' && !matches!(**byte, b'\n' | b'\r' | b'\t');
    (is_utf8 && head.iter().filter(strange).count() * 32 < head.len())
        || head.starts_with(b"PK\x03\x04")
        || Method::detect(head).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_all(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        find_encoded(text.as_bytes(), &mut |bytes| {
            all.push(String::from_utf8_lossy(&bytes).into_owned());
        });
        all
    }

    #[test]
    fn base64_and_hexadecimal_runs_are_decoded() {
        let text = "def to_roman(number):\n    return '?' * number\n".repeat(4);
        let hexadecimal: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let base64 = "ZGVmIHRvX3JvbWFuKG51bWJlcik6CiAgICByZXR1cm4gJz8nICogbnVtYmVyCmRlZiB0b19yb21h\n\
                      bihudW1iZXIpOgogICAgcmV0dXJuICc/JyAqIG51bWJlcgpkZWYgdG9fcm9tYW4obnVtYmVyKToK\n\
                      ICAgIHJldHVybiAnPycgKiBudW1iZXIKZGVmIHRvX3JvbWFuKG51bWJlcik6CiAgICByZXR1cm4g\n\
                      Jz8nICogbnVtYmVyCg==\n";
        let one_line = base64.replace('\n', "");
        for written in [&hexadecimal, base64, &one_line, &one_line.replace('/', "_")] {
            assert_eq!(decode_all(&format!("x = '{written}'\n")), [&text[..]], "{written}");
            let letter = format!("{}\n-----BEGIN-----\n{written}\n-----", "some words ".repeat(50));
            assert_eq!(decode_all(&letter), [&text[..]]);
        }
    }

    #[test]
    fn words_and_hashes_are_not_decoded() {
        let words: String = (0..500).map(|n| format!("name_{}\n", "x".repeat(n % 17))).collect();
        assert_eq!(decode_all(&words), [""; 0]);
        let sums: String = (0..64)
            .map(|n: u64| format!("{:016x}\n", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        assert_eq!(decode_all(&sums), [""; 0]);
        assert_eq!(decode_all(&"A".repeat(4000)), [""; 0]);
    }
}
