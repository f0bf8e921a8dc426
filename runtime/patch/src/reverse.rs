//! Reverses a patch.

use crate::{
    PatchError,
    patch::{Body, ChangeKind, FilePatch, Hunk, Line, Patch, Side},
};

impl Patch {
    /// Returns the reversed patch, which restores the original tree when applied after the patch.
    ///
    /// # Errors
    /// Returns an error if the patch cannot be parsed or does not contain what its reverse needs:
    /// the content of a copy, or the old binary content.
    pub fn reverse(self) -> Result<Self, PatchError> {
        self.touched_paths()?;
        // Reverse the order of the files, because two entries for the same path must be undone in
        // reverse order.
        let files = self.files.into_iter().rev().map(reverse_file).collect::<Result<_, _>>()?;
        Ok(Self { files, first_error: None, repairs: Vec::new() })
    }
}

fn reverse_file(file: FilePatch) -> Result<FilePatch, PatchError> {
    let path = file.path();
    let refuse = |why: &str| Err(PatchError::Refused { path: path.clone(), why: why.to_owned() });
    if file.kind == ChangeKind::Copy {
        return refuse("a copy cannot be reversed: the patch does not contain the copied content");
    }
    let body = match file.body {
        Body::Empty => Body::Empty,
        Body::Text(hunks) => Body::Text(hunks.into_iter().map(reverse_hunk).collect()),
        Body::Binary { forward, backward: Some(backward) } => {
            Body::Binary { forward: backward, backward: Some(forward) }
        }
        Body::Binary { .. } | Body::Withheld => {
            return refuse("the patch does not contain the binary content that it replaces");
        }
    };
    Ok(FilePatch {
        old_path: file.new_path,
        new_path: file.old_path,
        old_mode: file.new_mode,
        new_mode: file.old_mode,
        blob_ids: file.blob_ids.map(|(old, new)| (new, old)),
        body,
        text_range: 0..0,
        ..file
    })
}

fn reverse_hunk(hunk: Hunk) -> Hunk {
    let mut lines = Vec::with_capacity(hunk.lines.len());
    // Removed lines come before added ones, so reorder each run of changes.
    let mut added: Vec<Line> = Vec::new();
    for Line { side, bytes } in hunk.lines {
        match side {
            Side::Both => {
                lines.append(&mut added);
                lines.push(Line { side, bytes });
            }
            Side::Old => added.push(Line { side: Side::New, bytes }),
            Side::New => lines.push(Line { side: Side::Old, bytes }),
        }
    }
    lines.append(&mut added);
    Hunk { old_start: hunk.new_start, new_start: hunk.old_start, section: hunk.section, lines }
}
