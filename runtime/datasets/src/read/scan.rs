//! Finds where JSON values start and end without parsing them. A broken row in an array then does
//! not affect its neighbors, and an array is never parsed as a whole, which would use a lot of
//! memory.

/// Returns the end of the value that starts at `start`, which must not be whitespace. `None` if
/// the text ends first, or the brackets do not match.
pub(super) fn find_value_end(text: &[u8], start: usize) -> Option<usize> {
    match text.get(start)? {
        b'"' => find_string_end(text, start),
        b'{' | b'[' => {
            let mut open = Vec::new();
            let mut here = start;
            while let Some(byte) = text.get(here) {
                match byte {
                    b'"' => {
                        here = find_string_end(text, here)?;
                        continue;
                    }
                    b'{' => open.push(b'}'),
                    b'[' => open.push(b']'),
                    b'}' | b']' => {
                        if open.pop() != Some(*byte) {
                            return None;
                        }
                        if open.is_empty() {
                            return Some(here + 1);
                        }
                    }
                    _ => {}
                }
                here += 1;
            }
            None
        }
        // A number, a word or an invalid token: up to the next delimiter.
        _ => {
            let rest = &text[start..];
            let length = rest.iter().position(|byte| matches!(byte, b',' | b']' | b'}'));
            Some(start + length.unwrap_or(rest.len()))
        }
    }
}

/// Returns the end of the string whose opening quote is at `start`.
pub(super) fn find_string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut here = start + 1;
    loop {
        let byte = text.get(here)?;
        match byte {
            b'\\' => here += 2,
            b'"' => return Some(here + 1),
            // JSON strings do not span lines.
            b'\n' => return None,
            _ => here += 1,
        }
    }
}

/// Returns the start of the first line below `start` that starts with `{`. Reading continues there
/// after an unclosed element.
pub(super) fn next_object_line(text: &[u8], start: usize) -> Option<usize> {
    let mut here = start;
    loop {
        here += text.get(here..)?.iter().position(|byte| *byte == b'\n')? + 1;
        let begin = skip_space(text, here);
        if text.get(begin) == Some(&b'{') {
            return Some(begin);
        }
    }
}

/// Returns the offset of the first byte from `start` on that is not whitespace.
pub(super) fn skip_space(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
}
