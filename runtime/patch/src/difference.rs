//! Creates the patch of one file from its old and new content.

use diffy::DiffOptions;
use proctor_wire::RawPath;

use crate::{
    binary,
    patch::{BinaryData, Body, FilePatch, Hunk, Line, Side},
};

/// The Git mode and content of one side. `None` if there is no file or it is a directory.
pub type SideContent = Option<(u32, Vec<u8>)>;

/// Above this product of line counts, computing the shortest edit script may take minutes. A single
/// hunk from the first to the last difference is then used, which is equally correct.
const MAX_LINE_PRODUCT: usize = 100_000_000;

impl FilePatch {
    /// Returns the patch that turns `old` into `new`: a change, a creation or a deletion.
    pub fn from_sides(path: &RawPath, old: SideContent, new: SideContent) -> Self {
        let id = |bytes: &(u32, Vec<u8>)| binary::blob_id(&bytes.1);
        let index = [&old, &new].map(|side| side.as_ref().map_or_else(|| "0".repeat(40), id));
        let (old_mode, old_bytes) = old.map_or((None, vec![]), |(mode, bytes)| (Some(mode), bytes));
        let (new_mode, new_bytes) = new.map_or((None, vec![]), |(mode, bytes)| (Some(mode), bytes));
        let body = if old_bytes == new_bytes {
            // An index line is not required, although Git writes one when it creates or deletes an
            // empty file.
            Body::Empty
        } else if binary::is_binary(&old_bytes) || binary::is_binary(&new_bytes) {
            Body::Binary {
                forward: BinaryData::Literal(new_bytes),
                backward: Some(BinaryData::Literal(old_bytes)),
            }
        } else {
            Body::Text(diff_hunks(&old_bytes, &new_bytes))
        };
        Self {
            old_path: old_mode.map(|_| path.clone()),
            new_path: new_mode.map(|_| path.clone()),
            old_mode,
            new_mode,
            blob_ids: Some(index.into()),
            body,
            ..Self::default()
        }
    }
}

fn diff_hunks(old: &[u8], new: &[u8]) -> Vec<Hunk> {
    let (old_lines, new_lines) = (split_lines(old), split_lines(new));
    if old_lines.len().saturating_mul(new_lines.len()) > MAX_LINE_PRODUCT {
        return vec![single_hunk(&old_lines, &new_lines)];
    }
    let diff = DiffOptions::new().create_patch_bytes(old, new);
    let hunks = diff.hunks().iter().map(|hunk| Hunk {
        old_start: hunk.old_range().start(),
        new_start: hunk.new_range().start(),
        section: Vec::new(),
        lines: hunk
            .lines()
            .iter()
            .map(|line| match line {
                diffy::Line::Context(bytes) => Line { side: Side::Both, bytes: bytes.to_vec() },
                diffy::Line::Delete(bytes) => Line { side: Side::Old, bytes: bytes.to_vec() },
                diffy::Line::Insert(bytes) => Line { side: Side::New, bytes: bytes.to_vec() },
            })
            .collect(),
    });
    hunks.collect()
}

fn split_lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns a single hunk from the first to the last difference, with three lines of context.
fn single_hunk(old: &[&[u8]], new: &[&[u8]]) -> Hunk {
    let same = |pairs: &mut dyn Iterator<Item = (&&[u8], &&[u8])>| {
        pairs.take_while(|(a, b)| a == b).count()
    };
    let head = same(&mut old.iter().zip(new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let start = head.saturating_sub(3);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let below = &old[old_end..(old_end + 3).min(old.len())];
    let lines = |side, lines: &[&[u8]]| {
        lines.iter().map(|bytes| Line { side, bytes: bytes.to_vec() }).collect::<Vec<_>>()
    };
    Hunk {
        old_start: start + 1,
        new_start: start + 1,
        section: Vec::new(),
        lines: [
            lines(Side::Both, &old[start..head]),
            lines(Side::Old, &old[head..old_end]),
            lines(Side::New, &new[head..new_end]),
            lines(Side::Both, below),
        ]
        .concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply;

    #[test]
    fn single_hunk_turns_old_lines_into_new_lines() {
        let text = |lines: &[&str]| lines.concat().into_bytes();
        let old = text(&["1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n", "8"]);
        for new in [
            text(&["1\n", "2\n", "3\n", "4\n", "x\n", "6\n", "y\n", "8"]),
            text(&["0\n", "1\n", "2\n", "3\n", "4\n", "5\n", "6\n", "7\n", "8\n"]),
            text(&["8"]),
        ] {
            let hunk = single_hunk(&split_lines(&old), &split_lines(&new));
            assert_eq!(apply::apply_hunks(&[hunk], &old).unwrap(), new);
        }
    }
}
