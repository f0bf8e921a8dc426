//! Applies one file's hunks to its lines with the rules of `git apply`: no fuzz, any offset.

use crate::patch::{Hunk, Side};

/// Where and why a hunk does not apply: its number, counted from 1, and the reason.
pub(crate) type HunkConflict = (usize, String);

pub(crate) fn apply_hunks(hunks: &[Hunk], source: &[u8]) -> Result<Vec<u8>, HunkConflict> {
    // Mark lines that a hunk wrote, because they must not match as context of another hunk.
    let mut image: Vec<(&[u8], bool)> =
        source.split_inclusive(|byte| *byte == b'\n').map(|line| (line, false)).collect();
    let mut drift: isize = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let old: Vec<_> = hunk.old_lines().collect();
        // If the old side is empty, its start is the line after which to insert.
        let start = if old.is_empty() { hunk.old_start } else { hunk.old_start.max(1) - 1 };
        let expected = start.saturating_add_signed(drift);
        // As in Git, a hunk that starts at line 1 must match at the beginning of the file, and a
        // hunk without trailing context must match at the end.
        let anchored_head = hunk.old_start <= 1;
        let anchored_tail = hunk.lines.last().is_some_and(|line| line.side != Side::Both);
        let at =
            find_match(&image, &old, expected, anchored_head, anchored_tail).ok_or_else(|| {
                (index + 1, explain_conflict(&image, &old, expected, anchored_head, anchored_tail))
            })?;
        drift += at.cast_signed() - expected.cast_signed();
        let new: Vec<_> = hunk
            .lines
            .iter()
            .filter(|line| line.side != Side::Old)
            .map(|line| (&line.bytes[..], line.side == Side::New))
            .collect();
        drift += new.len().cast_signed() - old.len().cast_signed();
        // Leave context lines unmarked, so that the next hunk may match them again.
        image.splice(at..at + old.len(), new);
    }
    Ok(image.into_iter().flat_map(|(line, _)| line.iter().copied()).collect())
}

/// Returns the match nearest to `expected_index`. If two matches are equally near, the earlier one
/// wins.
fn find_match(
    image: &[(&[u8], bool)],
    old_lines: &[&[u8]],
    expected_index: usize,
    is_anchored_at_start: bool,
    is_anchored_at_end: bool,
) -> Option<usize> {
    let last = image.len().checked_sub(old_lines.len())?;
    let fits = |at: usize| {
        (!is_anchored_at_start || at == 0)
            && (!is_anchored_at_end || at == last)
            && image[at..at + old_lines.len()]
                .iter()
                .zip(old_lines)
                .all(|((line, written), old)| !written && line == old)
    };
    let expected = expected_index.min(last);
    (0..=image.len())
        .flat_map(|distance| [expected.checked_sub(distance), expected.checked_add(distance)])
        .flatten()
        .filter(|at| *at <= last)
        .find(|at| fits(*at))
}

/// Explains why a hunk does not apply.
fn explain_conflict(
    image: &[(&[u8], bool)],
    old_lines: &[&[u8]],
    expected_index: usize,
    is_anchored_at_start: bool,
    is_anchored_at_end: bool,
) -> String {
    if (is_anchored_at_start || is_anchored_at_end)
        && find_match(image, old_lines, expected_index, false, false).is_some()
    {
        return if is_anchored_at_end {
            "the hunk has no context after its change, so it must match at the end of the file, \
             but its lines are further up"
                .into()
        } else {
            "the hunk must match at line 1, but its lines are further down".into()
        };
    }
    let bare = |line: &[u8]| line.trim_ascii_end().to_vec();
    let loose: Vec<_> = image.iter().map(|(line, written)| (bare(line), *written)).collect();
    let image_bare: Vec<_> = loose.iter().map(|(line, written)| (&line[..], *written)).collect();
    let old_bare: Vec<_> = old_lines.iter().map(|line| bare(line)).collect();
    let old_bare: Vec<_> = old_bare.iter().map(|line| &line[..]).collect();
    if find_match(&image_bare, &old_bare, expected_index, false, false).is_some() {
        return "only the line endings differ (carriage returns, trailing spaces or no final newline)"
            .into();
    }
    let differs = old_lines.iter().enumerate().find_map(|(index, wanted)| {
        let found = image.get(expected_index + index).map(|(line, _)| *line);
        (found != Some(wanted)).then_some((expected_index + index + 1, *wanted, found))
    });
    match differs {
        Some((line, wanted, Some(found))) => {
            format!("line {line} is {}, not {}", quote_line(found), quote_line(wanted))
        }
        Some((line, wanted, None)) => {
            format!("the file ends before line {line}, which should be {}", quote_line(wanted))
        }
        None => "another hunk of this patch changed these lines".into(),
    }
}

/// Formats a line for an error message, truncated to 60 characters.
fn quote_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
    let cut: String = text.chars().take(60).collect();
    if cut.len() < text.len() { format!("{:?}...", cut) } else { format!("{cut:?}") }
}
