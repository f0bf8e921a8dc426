//! Parses the hunks of one file.

use proctor_types::count_with_noun;

use crate::{
    lines::{Lines, trim_carriage_returns},
    patch::{Hunk, Line, Side},
};

/// GNU `patch` assumes that up to this many blank context lines were stripped from the end of a
/// patch.
const MAX_STRIPPED_LINES: usize = 3;

/// Parses hunks up to the first line that does not begin a hunk. Error messages contain `name`.
pub(crate) fn parse_hunks(lines: &mut Lines<'_>, name: &str) -> Vec<Hunk> {
    let mut hunks = Vec::new();
    let mut count = 0;
    while lines.peek().is_some_and(|line| line.starts_with(b"@@ -")) {
        count += 1;
        hunks.extend(parse_hunk(lines, name, count));
    }
    hunks
}

fn parse_hunk(lines: &mut Lines<'_>, name: &str, count: usize) -> Option<Hunk> {
    let at = lines.number;
    let header = lines.next().unwrap_or_default();
    let Some(range) = parse_ranges(trim_carriage_returns(header)) else {
        let text = String::from_utf8_lossy(header).into_owned();
        lines.record_error(format!(
            "line {at}: {name}: hunk {count} has an invalid header: {text:?}"
        ));
        while has_more_body_lines(lines) {
            lines.advance();
        }
        return None;
    };
    let (old_len, new_len) = (range.old.1, range.new.1);
    let mut hunk = Hunk {
        old_start: range.old.0,
        new_start: range.new.0,
        section: range.section.to_vec(),
        lines: Vec::new(),
    };
    let (mut old, mut new) = (0, 0);
    while old < old_len || new < new_len {
        let line = match lines.peek() {
            Some([b'\\', ..]) if !hunk.lines.is_empty() => {
                parse_no_newline_marker(lines, &mut hunk);
                continue;
            }
            Some(line) => parse_body_line(line),
            None => None,
        };
        let Some(line) = line else { break };
        let counted = add_line_count((old, new), line.side);
        if counted.0 > old_len || counted.1 > new_len {
            break;
        }
        (old, new) = counted;
        hunk.lines.push(line);
        lines.advance();
    }
    if lines.peek().is_some_and(|line| line.starts_with(b"\\")) {
        parse_no_newline_marker(lines, &mut hunk);
    }
    let missing = old_len.saturating_sub(old);
    if lines.peek().is_none()
        && !hunk.lines.is_empty()
        && (1..=MAX_STRIPPED_LINES).contains(&missing)
        && new_len.saturating_sub(new) == missing
    {
        // Tools that trim text remove blank lines at its end. Such lines are not needed if the hunk
        // still shows other context below its change.
        if hunk.lines.last().is_some_and(|line| line.side != Side::Both) {
            let blank = Line { side: Side::Both, bytes: b"\n".to_vec() };
            hunk.lines.extend(std::iter::repeat_n(blank, missing));
        }
        lines.repairs.push(format!(
            "{name}: hunk {count} is missing its last {}",
            count_with_noun(missing, "context line")
        ));
        return Some(hunk);
    }
    if (old, new) != (old_len, new_len) || has_more_body_lines(lines) {
        // Read the rest of the body, so that the error reports the actual counts.
        while has_more_body_lines(lines)
            && let Some(line) = lines.next().and_then(parse_body_line)
        {
            (old, new) = add_line_count((old, new), line.side);
            hunk.lines.push(line);
        }
        lines.record_error(format!(
            "line {at}: {name}: the header of hunk {count} says {old_len} old and {new_len} new \
             lines, but its body has {old} and {new}: fix the header"
        ));
    }
    Some(hunk)
}

fn parse_body_line(line: &[u8]) -> Option<Line> {
    let (side, text) = match line {
        // A completely empty line is an empty context line that lost its leading space.
        b"" | b"\r" => (Side::Both, line),
        [b' ', text @ ..] => (Side::Both, text),
        [b'-', text @ ..] => (Side::Old, text),
        [b'+', text @ ..] => (Side::New, text),
        _ => return None,
    };
    Some(Line { side, bytes: [text, b"\n"].concat() })
}

fn add_line_count((old, new): (usize, usize), side: Side) -> (usize, usize) {
    (old + usize::from(side != Side::New), new + usize::from(side != Side::Old))
}

/// Parses `\ No newline at end of file`, in any language.
fn parse_no_newline_marker(lines: &mut Lines<'_>, hunk: &mut Hunk) {
    lines.advance();
    if let Some(last) = hunk.lines.last_mut()
        && last.bytes.ends_with(b"\n")
    {
        last.bytes.pop();
    }
}

/// Returns whether the hunk's body continues beyond its counts. Git would silently drop such lines.
fn has_more_body_lines(lines: &Lines<'_>) -> bool {
    match lines.peek() {
        // This line starts a mail signature, or the next file in a patch without Git headers.
        Some(b"-- " | b"--") => false,
        Some([b'-', b'-', b'-', b' ', ..]) => {
            !lines.peek_second().is_some_and(|line| line.starts_with(b"+++ "))
        }
        Some([b' ' | b'+' | b'-', ..]) => true,
        _ => false,
    }
}

struct Ranges<'a> {
    old: (usize, usize),
    new: (usize, usize),
    section: &'a [u8],
}

/// Parses `@@ -1,2 +3,4 @@ section`.
fn parse_ranges(header: &[u8]) -> Option<Ranges<'_>> {
    let rest = header.strip_prefix(b"@@ -")?;
    let (old, rest) = parse_range(rest)?;
    let rest = rest.strip_prefix(b" +")?;
    let (new, rest) = parse_range(rest)?;
    let section = rest.strip_prefix(b" @@")?;
    Some(Ranges { old, new, section })
}

fn parse_range(text: &[u8]) -> Option<((usize, usize), &[u8])> {
    let (start, rest) = parse_number(text)?;
    match rest.strip_prefix(b",") {
        None => Some(((start, 1), rest)),
        Some(rest) => {
            let (count, rest) = parse_number(rest)?;
            Some(((start, count), rest))
        }
    }
}

fn parse_number(text: &[u8]) -> Option<(usize, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let value = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((value, &text[end..]))
}
