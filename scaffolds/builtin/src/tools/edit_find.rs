//! Finds the text that `replace` refers to, or explains why there is not exactly one occurrence.

/// Maximum number of line numbers to list in a message.
const MAX_LISTED_LINES: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Occurrence {
    /// The text occurs once, at this offset.
    Once(usize),
    /// The text does not occur exactly once. Contains a message for the model.
    NotUnique(String),
}

/// Finds the only occurrence of a string. Accepts no near matches, because silently replacing one
/// would be a wrong edit.
pub(super) fn find_once(bytes: &[u8], old_text: &str) -> Occurrence {
    if old_text.is_empty() {
        return Occurrence::NotUnique(
            "old_str is empty; use insert, or create for a whole file.".into(),
        );
    }
    let places = find_occurrences(bytes, old_text.as_bytes());
    match places.as_slice() {
        [at] => Occurrence::Once(*at),
        [] => Occurrence::NotUnique(explain_no_match(bytes, old_text)),
        many => {
            let lines: Vec<_> = many
                .iter()
                .take(MAX_LISTED_LINES)
                .map(|at| line_number(bytes, *at).to_string())
                .collect();
            let more = if many.len() > MAX_LISTED_LINES { ", ..." } else { "" };
            Occurrence::NotUnique(format!(
                "old_str occurs {} times, at lines {}{more}. Add lines around it until it is unique.",
                many.len(),
                lines.join(", ")
            ))
        }
    }
}

/// Returns all occurrences, including overlapping ones, because either could be meant.
fn find_occurrences(bytes: &[u8], old_text: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(rest) = bytes.get(from..) {
        let first = rest.iter().position(|byte| *byte == old_text[0]);
        let Some(at) = first.map(|offset| from + offset) else { break };
        if bytes[at..].starts_with(old_text) {
            places.push(at);
        }
        from = at + 1;
    }
    places
}

/// Returns the most helpful error message for an `old_str` that does not occur in the file.
fn explain_no_match(bytes: &[u8], old_text: &str) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains("\r\n")
        && !old_text.contains('\r')
        && text.replace("\r\n", "\n").contains(old_text)
    {
        return "old_str does not occur as written: the file's lines end in CRLF. \
                Replace within single lines, or convert the file."
            .into();
    }
    let wanted: Vec<_> =
        old_text.lines().map(collapse_whitespace).filter(|line| !line.is_empty()).collect();
    let there: Vec<_> = (1_usize..)
        .zip(text.lines().map(collapse_whitespace))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let Some(first) = wanted.first() else {
        return "old_str does not occur: it contains only whitespace.".into();
    };
    let alike = |window: &[(usize, String)]| window.iter().map(|(_, line)| line).eq(wanted.iter());
    if let Some(window) = there.windows(wanted.len()).find(|window| alike(window)) {
        let lines = match window {
            [(one, _)] => format!("line {one}"),
            [(from, _), .., (to, _)] => format!("lines {from}-{to}"),
            [] => String::new(),
        };
        return format!(
            "old_str does not occur, but {lines} differ from it only in whitespace. \
             View them and copy them exactly."
        );
    }
    let starts: Vec<_> = there
        .iter()
        .filter(|(_, line)| line == first)
        .take(MAX_LISTED_LINES)
        .map(|(number, _)| number.to_string())
        .collect();
    if starts.is_empty() {
        return "old_str does not occur, nor does its first line. View the file again.".into();
    }
    format!(
        "old_str does not occur; its first line does, at line {}, but what follows differs. \
         View the file again.",
        starts.join(", ")
    )
}

fn collapse_whitespace(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the line number of a byte offset, counted from 1.
pub(super) fn line_number(bytes: &[u8], at: usize) -> usize {
    1 + bytes[..at.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_message(bytes: &[u8], old_text: &str) -> String {
        match find_once(bytes, old_text) {
            Occurrence::NotUnique(why) => why,
            Occurrence::Once(at) => panic!("found at {at}"),
        }
    }

    #[test]
    fn find_once_requires_an_exact_unique_match() {
        assert_eq!(find_once(b"a = 1\nb = 2\n", "b = 2"), Occurrence::Once(6));
        assert_eq!(find_once(b"\xff\xfe b", "b"), Occurrence::Once(3));
        assert!(failure_message(b"x\ny\nx\n", "x").contains("2 times, at lines 1, 3"));
        // Overlapping occurrences count as two.
        assert!(failure_message(b"aaa", "aa").contains("2 times"));
        assert!(failure_message(b"x", "").contains("empty"));
    }

    #[test]
    fn find_once_reports_near_matches() {
        let text = b"def f():\n    return 1\n\ndef g():\n    return 2\n";
        assert!(failure_message(text, "def f():\n  return 1").contains("lines 1-2 differ"));
        assert!(failure_message(text, "return  2").contains("line 5 differ"));
        assert!(failure_message(text, "def g():\n    return 3").contains("at line 4, but"));
        assert!(failure_message(text, "class A:").contains("nor does its first line"));
        assert!(failure_message(b"a\r\nb\r\n", "a\nb").contains("CRLF"));
    }
}
