//! Strips the line numbers that viewers, search tools and agents' own tools put before lines.

/// Maximum number of digits of a line number.
const MAX_DIGITS: usize = 7;

/// Returns the part after a line number: `  12\tcode`, `12: code`, `12|code`, `12-code`, `12)
/// code`, `12→code`, and the same forms in a string literal. A line of data may also start with a
/// number, so callers must try the line with and without it.
pub fn strip_line_number(line: &[u8]) -> Option<&[u8]> {
    let skip = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'"' | b'\''))?;
    let rest = &line[skip..];
    if !rest[0].is_ascii_digit() {
        return None;
    }
    let digits = rest.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > MAX_DIGITS {
        return None;
    }
    let rest = &rest[digits..];
    let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
    let after = &rest[blanks..];
    let separators: [&[u8]; 8] = [b"\t", b":", b"|", b"-", b")", b"]", b".", "→".as_bytes()];
    if let Some(after) = separators.iter().find_map(|separator| after.strip_prefix(*separator)) {
        return Some(after);
    }
    // In a string literal, an escape may follow: an arrow, or a tab, which is dropped like all
    // escaped tabs.
    let backslashes = after.iter().take_while(|&&byte| byte == b'\\').count();
    if backslashes > 0 {
        return Some(after[backslashes..].strip_prefix(b"u2192").unwrap_or(after));
    }
    (blanks > 0 || after.is_empty()).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_line_number_requires_a_separator() {
        for (line, rest) in [
            ("     1\tcode", "code"),
            ("12:    code", "    code"),
            ("12- code", " code"),
            ("  7 | code", " code"),
            ("3 code", "code"),
            ("100→\tcode", "\tcode"),
            ("\"4\\tcode", "\\tcode"),
            ("9\\\\u2192code", "code"),
            ("5", ""),
        ] {
            assert_eq!(strip_line_number(line.as_bytes()), Some(rest.as_bytes()), "{line}");
        }
        for line in ["code", "", "12345678: code", "0x1f: code", "3rd code", "1, 2, 3"] {
            assert_eq!(strip_line_number(line.as_bytes()), None, "{line}");
        }
    }
}
