//! Formats files and folders for the model.

use proctor_sandbox_api::wire::{DirEntry, EntryKind};

use super::{ToolError, edit_find::line_number};
use crate::clip::decode_lossy;

/// Number of lines to show before and after an edit.
const CONTEXT_LINES: usize = 3;
/// Maximum number of lines to show of an edit.
const MAX_EXCERPT_LINES: usize = 40;

/// Formats lines as `     1<tab>text`. `range` selects the lines from `first` to `last`, counted
/// from 1. If `last` is -1, it means the end of the file.
pub(super) fn format_numbered_lines(
    text: &str,
    range: Option<&[i64]>,
) -> Result<String, ToolError> {
    let total = text.lines().count();
    let (first, last) = match range {
        None => (1, total),
        Some([first, last]) => {
            let bad = |why: &str| {
                ToolError::Tell(format!(
                    "view_range [{first}, {last}] {why}; the file has {total} lines."
                ))
            };
            let end = if *last == -1 { total } else { usize::try_from(*last).unwrap_or(0) };
            let start = usize::try_from(*first).unwrap_or(0);
            if start == 0 || end < start {
                return Err(bad("is not a range of lines"));
            }
            if start > total {
                return Err(bad("starts past the end"));
            }
            (start, end.min(total))
        }
        Some(_) => {
            let why = "The arguments of `edit` could not be read: field `view_range`: \
                       two numbers, the first and the last line, or null";
            return Err(ToolError::Malformed(why.into()));
        }
    };
    if total == 0 {
        return Ok("[the file is empty]".into());
    }
    let lines = text.lines().enumerate().skip(first - 1).take(last + 1 - first);
    Ok(lines.map(|(index, line)| format!("{:>6}\t{line}\n", index + 1)).collect())
}

/// Formats one entry per line. Folders end in `/`; links are shown with their target, files with
/// their size.
pub(super) fn format_folder(entries: &[DirEntry], limit: usize) -> String {
    if entries.is_empty() {
        return "[the folder is empty]".into();
    }
    let mut text = String::new();
    for entry in entries.iter().take(limit) {
        let name = decode_lossy(entry.name.as_bytes());
        text.push_str(&match (entry.kind, &entry.link) {
            (EntryKind::Dir, _) => format!("{name}/\n"),
            (EntryKind::Link, Some(target)) => {
                format!("{name} -> {}\n", decode_lossy(target.as_bytes()))
            }
            (EntryKind::File, _) => format!("{name}\t{} bytes\n", entry.size),
            _ => format!("{name}\n"),
        });
    }
    if entries.len() > limit {
        text.push_str(&format!("[{} more entries]\n", entries.len() - limit));
    }
    text
}

/// Formats the lines that an edit wrote, with a few lines before and after them.
pub(super) fn format_excerpt(content: &[u8], at: usize, size: usize) -> String {
    let first = line_number(content, at);
    // The line of the last byte that was written, or of the edit itself if nothing was written.
    let last =
        line_number(content, (at + size).saturating_sub(1).max(at)).min(first + MAX_EXCERPT_LINES);
    let (from, to) = (first.saturating_sub(CONTEXT_LINES).max(1), last + CONTEXT_LINES);
    let text = decode_lossy(content);
    let lines = text.lines().enumerate().skip(from - 1).take(to + 1 - from);
    lines.map(|(index, line)| format!("{:>6}\t{line}\n", index + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_lines_reject_ranges_outside_the_file() {
        let text = "a\nb\nc";
        assert_eq!(format_numbered_lines(text, None).unwrap(), "     1\ta\n     2\tb\n     3\tc\n");
        assert_eq!(format_numbered_lines(text, Some(&[2, -1])).unwrap(), "     2\tb\n     3\tc\n");
        assert_eq!(format_numbered_lines(text, Some(&[3, 99])).unwrap(), "     3\tc\n");
        assert_eq!(format_numbered_lines("", None).unwrap(), "[the file is empty]");
        for range in [[0, 2], [3, 2], [4, 5], [-1, -1]] {
            let error = format_numbered_lines(text, Some(&range)).unwrap_err();
            assert!(matches!(&error, ToolError::Tell(why) if why.contains("3 lines")), "{error:?}");
        }
        assert!(matches!(format_numbered_lines(text, Some(&[1])), Err(ToolError::Malformed(_))));
    }

    #[test]
    fn excerpt_shows_the_written_lines() {
        let after: Vec<u8> = (1..=20).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let at = 9 * 7; // The start of line 10: nine lines of seven bytes.
        let shown = format_excerpt(&after, at, 8);
        assert!(shown.starts_with("     7\tline 7\n"), "{shown}");
        assert!(shown.ends_with("    13\tline 13\n"), "{shown}");
        // There is also an excerpt for a deletion at the end of a file.
        assert_eq!(format_excerpt(b"a\nb\n", 4, 0), "     1\ta\n     2\tb\n");
    }
}
