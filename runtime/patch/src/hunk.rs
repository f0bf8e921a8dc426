//! Parses the hunks of one file.

use proctor_types::plural;

use crate::{
    lines::{Lines, bare},
    patch::{Hunk, Line, Side},
};

/// Maximum number of missing blank context lines that GNU `patch` assumes were stripped from the
/// end of a patch.
const STRIPPED: usize = 3;

/// Parses hunks until another kind of line. `name` is used in error messages.
pub(crate) fn read(lines: &mut Lines<'_>, name: &str) -> Vec<Hunk> {
    let mut hunks = Vec::new();
    let mut count = 0;
    while lines.peek().is_some_and(|line| line.starts_with(b"@@ -")) {
        count += 1;
        hunks.extend(one(lines, name, count));
    }
    hunks
}

fn one(lines: &mut Lines<'_>, name: &str, count: usize) -> Option<Hunk> {
    let at = lines.number;
    let header = lines.next().unwrap_or_default();
    let Some(range) = ranges(bare(header)) else {
        let text = String::from_utf8_lossy(header).into_owned();
        lines.note(format!("line {at}: {name}: hunk {count} has an invalid header: {text:?}"));
        while runs_on(lines) {
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
                no_newline(lines, &mut hunk);
                continue;
            }
            Some(line) => body_line(line),
            None => None,
        };
        let Some(line) = line else { break };
        let counted = count_in((old, new), line.side);
        if counted.0 > old_len || counted.1 > new_len {
            break;
        }
        (old, new) = counted;
        hunk.lines.push(line);
        lines.advance();
    }
    if lines.peek().is_some_and(|line| line.starts_with(b"\\")) {
        no_newline(lines, &mut hunk);
    }
    let missing = old_len.saturating_sub(old);
    if lines.peek().is_none()
        && !hunk.lines.is_empty()
        && (1..=STRIPPED).contains(&missing)
        && new_len.saturating_sub(new) == missing
    {
        // Trimming a text removes blank lines at its end. They are not needed if the hunk shows
        // other context below its change.
        if hunk.lines.last().is_some_and(|line| line.side != Side::Both) {
            let blank = Line { side: Side::Both, bytes: b"\n".to_vec() };
            hunk.lines.extend(std::iter::repeat_n(blank, missing));
        }
        lines.repairs.push(format!(
            "{name}: hunk {count} lacks its last {}",
            plural(missing, "context line")
        ));
        return Some(hunk);
    }
    if (old, new) != (old_len, new_len) || runs_on(lines) {
        // Read the rest of the body, so that the error shows the correct counts.
        while runs_on(lines)
            && let Some(line) = lines.next().and_then(body_line)
        {
            (old, new) = count_in((old, new), line.side);
            hunk.lines.push(line);
        }
        lines.note(format!(
            "line {at}: {name}: the header of hunk {count} says {old_len} old and {new_len} new \
             lines, but its body has {old} and {new}: fix the header"
        ));
    }
    Some(hunk)
}

fn body_line(line: &[u8]) -> Option<Line> {
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

fn count_in((old, new): (usize, usize), side: Side) -> (usize, usize) {
    (old + usize::from(side != Side::New), new + usize::from(side != Side::Old))
}

/// Parses `\ No newline at end of file`, in any language.
fn no_newline(lines: &mut Lines<'_>, hunk: &mut Hunk) {
    lines.advance();
    if let Some(last) = hunk.lines.last_mut()
        && last.bytes.ends_with(b"\n")
    {
        last.bytes.pop();
    }
}

/// Returns whether the hunk's body continues beyond its counts. Git would silently drop such lines.
fn runs_on(lines: &Lines<'_>) -> bool {
    match lines.peek() {
        // The start of a mail signature, or of the next file in a patch without Git headers.
        Some(b"-- " | b"--") => false,
        Some([b'-', b'-', b'-', b' ', ..]) => {
            !lines.second().is_some_and(|line| line.starts_with(b"+++ "))
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

/// Parses `
///
/// -1,2 +3,4
///
/// section`.
fn ranges(header: &[u8]) -> Option<Ranges<'_>> {
    let rest = header.strip_prefix(b"@@ -")?;
    let (old, rest) = range(rest)?;
    let rest = rest.strip_prefix(b" +")?;
    let (new, rest) = range(rest)?;
    let section = rest.strip_prefix(b" @@")?;
    Some(Ranges { old, new, section })
}

fn range(text: &[u8]) -> Option<((usize, usize), &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",") {
        None => Some(((start, 1), rest)),
        Some(rest) => {
            let (count, rest) = number(rest)?;
            Some(((start, count), rest))
        }
    }
}

fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let value = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    Some((value, &text[end..]))
}
