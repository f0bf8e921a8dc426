use std::{collections::BTreeMap, fmt};

use proctor_patch::{Body, FilePatch, Side};

use super::{NO_NEWLINE, SnippetSide, parse_answer};
use crate::{
    apply::{FileState, MatchMode, apply},
    lines::Lines,
};

/// A change that the format cannot express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedChange {
    /// The file's path.
    pub file: String,
    /// What cannot be expressed.
    pub reason: &'static str,
}

impl fmt::Display for UnsupportedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: natural answers cannot express {}", self.file, self.reason)
    }
}

/// Formats changes as a natural answer. For each path, `sides` has the old and the new state.
///
/// To verify the result, parses and applies each file's edits. If that doesn't reproduce the
/// change, for example because the file contains repeated sections, uses a single edit that
/// replaces the whole file.
///
/// # Errors
/// Returns an error if the format cannot express a change.
pub fn format_answer(
    files: &BTreeMap<String, (FileState, FileState)>,
) -> Result<String, UnsupportedChange> {
    let mut out = String::new();
    for (file, (before, after)) in files {
        if before == after {
            continue;
        }
        let unwritable = |why| UnsupportedChange { file: file.clone(), reason: why };
        let kind =
            |side: &FileState| side.as_ref().is_some_and(|(mode, _)| mode & 0o170_000 != 0o100_000);
        if kind(before) || kind(after) {
            return Err(unwritable("a link"));
        }
        let Some((mode, new)) = after else {
            out.push_str(&format!("<edit>\n[delete {file}]\n</edit>\n\n"));
            continue;
        };
        let (was, old) = before.as_ref().map_or((None, &[][..]), |(mode, old)| (Some(*mode), old));
        let mut text = String::new();
        if was.unwrap_or(proctor_patch::MODE_FILE) != *mode {
            text.push_str(&format!("<edit>\n[mode {file} {mode:o}]\n</edit>\n\n"));
        }
        if old != new.as_slice() || was.is_none() {
            let utf8 = |bytes| {
                std::str::from_utf8(bytes).map_err(|_| unwritable("bytes that are not UTF-8"))
            };
            let (old, new) = (utf8(old)?, utf8(new)?);
            let right = |text: &str| {
                let natural = parse_answer(text);
                let applied = apply(&natural.edits, MatchMode::Exact, &|path| {
                    (path == file).then(|| before.clone()).flatten()
                });
                natural.problems.is_empty() && applied.files.get(file) == Some(after)
            };
            let short = format!("{text}{}", format_hunk_edits(file, old, new));
            let whole = || format!("{text}{}", format_whole_file_edit(file, old, new));
            text = match right(&short) {
                true => short,
                false => Some(whole())
                    .filter(|text| right(text))
                    .ok_or_else(|| unwritable("a line or name that looks like a marker"))?,
            };
        }
        out.push_str(&text);
    }
    Ok(out)
}

/// Splits both texts into lines. Strips carriage returns if every line of both texts has one.
fn split_sides(old_text: &str, new_text: &str) -> (Lines, Lines) {
    let (before, after) = (Lines::from_text(old_text), Lines::from_text(new_text));
    match before.has_crlf && after.has_crlf {
        true => (before, after),
        false => (before.with_carriage_returns(), after.with_carriage_returns()),
    }
}

fn format_whole_file_edit(file: &str, old_text: &str, new_text: &str) -> String {
    let (before, after) = split_sides(old_text, new_text);
    format_edit(
        file,
        (&before.lines, !before.ends_with_newline),
        (&after.lines, !after.ends_with_newline),
    )
}

fn format_hunk_edits(file: &str, old_text: &str, new_text: &str) -> String {
    let (before, after) = split_sides(old_text, new_text);
    if before.lines.is_empty() || after.lines.is_empty() {
        return format_whole_file_edit(file, old_text, new_text);
    }
    let side = |text: &str| Some((proctor_patch::MODE_FILE, text.as_bytes().to_vec()));
    let Body::Text(hunks) =
        FilePatch::from_sides(&file.into(), side(old_text), side(new_text)).body
    else {
        return format_whole_file_edit(file, old_text, new_text);
    };
    let mut out = String::new();
    for hunk in hunks {
        let count = |side| {
            hunk.lines.iter().filter(|line| line.side == Side::Both || line.side == side).count()
        };
        let (old_len, new_len) = (count(Side::Old), count(Side::New));
        let (start, new_start) =
            (hunk.old_start.saturating_sub(1), hunk.new_start.saturating_sub(1));
        let (end, new_end) = (start + old_len, new_start + new_len);
        if end > before.lines.len() || new_end > after.lines.len() {
            return format_whole_file_edit(file, old_text, new_text);
        }
        let (mut from, mut to) = (start, end);
        while !occurs_once(&before.lines, from, to) && (from > 0 || to < before.lines.len()) {
            from = from.saturating_sub(1);
            to = (to + 1).min(before.lines.len());
        }
        let lines =
            [&before.lines[from..start], &after.lines[new_start..new_end], &before.lines[end..to]];
        let at_end = to == before.lines.len();
        out.push_str(&format_edit(
            file,
            (&before.lines[from..to], at_end && !before.ends_with_newline),
            (&lines.concat(), at_end && !after.ends_with_newline),
        ));
    }
    out
}

/// Returns whether the lines from `start` to `end` occur in a file exactly once.
fn occurs_once(lines: &[String], start: usize, end: usize) -> bool {
    end > start
        && lines
            .windows(end - start)
            .filter(|window| *window == &lines[start..end])
            .nth(1)
            .is_none()
}

fn format_edit(
    file: &str,
    old_snippet: (&[String], bool),
    new_snippet: (&[String], bool),
) -> String {
    let [before, after] = [(SnippetSide::Before, old_snippet), (SnippetSide::After, new_snippet)]
        .map(|(time, (lines, unended))| {
            let word = time.name();
            let mut text = format!("[start of the snippet {word} editing in {file}]\n");
            for line in lines {
                text.push_str(line);
                text.push('\n');
            }
            if unended {
                text.push_str(NO_NEWLINE);
                text.push('\n');
            }
            text + &format!("[end of the snippet {word} editing in {file}]\n")
        });
    format!("<edit>\n{before}\n{after}</edit>\n\n")
}
