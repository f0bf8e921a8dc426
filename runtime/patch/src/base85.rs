//! Git's base85 encoding: five characters for four bytes. Each line starts with a length character.

const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Number of bytes in a full line.
const LINE_BYTES: usize = 52;

/// Appends the encoded lines of `bytes`, each with a newline.
pub(crate) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for line in bytes.chunks(LINE_BYTES) {
        let length = line.len() as u8;
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        for group in line.chunks(4) {
            let mut four = [0; 4];
            four[..group.len()].copy_from_slice(group);
            let mut value = u32::from_be_bytes(four);
            let mut five = [0; 5];
            for place in five.iter_mut().rev() {
                *place = ALPHABET[(value % 85) as usize];
                value /= 85;
            }
            out.extend_from_slice(&five);
        }
        out.push(b'\n');
    }
}

/// Decodes one line without its newline and appends the bytes. Returns `None` if it is not base85.
pub(crate) fn decode_line(line: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&first, groups) = line.split_first()?;
    let length = match first {
        b'A'..=b'Z' => usize::from(first - b'A') + 1,
        b'a'..=b'z' => usize::from(first - b'a') + 27,
        _ => return None,
    };
    if groups.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let end = out.len() + length;
    for group in groups.chunks(5) {
        let mut value: u32 = 0;
        for character in group {
            let digit = ALPHABET.iter().position(|one| one == character)? as u32;
            value = value.checked_mul(85)?.checked_add(digit)?;
        }
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.truncate(end);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base85_round_trips_bytes_of_any_length() {
        for length in 0..200_usize {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 + 255) as u8).collect();
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            let mut back = Vec::new();
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                decode_line(line, &mut back).unwrap();
            }
            assert_eq!(back, bytes);
        }
    }

    #[test]
    fn decode_line_rejects_invalid_base85() {
        for line in [&b""[..], b"A", b"1abcde", b"Aabcd", b"Dab\"de", b"D~~~~~"] {
            assert_eq!(decode_line(line, &mut Vec::new()), None, "{line:?}");
        }
    }
}
