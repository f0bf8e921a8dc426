//! A parsed patch, with one value per file and hunk.

use std::{collections::BTreeSet, ops::Range};

use proctor_wire::RawPath;

use crate::{PatchError, guard};

/// The parsed parts of a patch.
#[derive(Debug, Clone)]
pub struct Patch {
    /// The files in text order.
    pub files: Vec<FilePatch>,
    /// The first error in the text.
    pub(crate) first_error: Option<String>,
    /// Repairs made where the text is incomplete, one sentence each.
    pub(crate) repairs: Vec<String>,
}

impl Patch {
    /// Returns all files.
    ///
    /// # Errors
    /// Returns an error if part of the text could not be parsed.
    pub(crate) fn parsed_files(&self) -> Result<&[FilePatch], PatchError> {
        match &self.first_error {
            Some(why) => Err(PatchError::Malformed { why: why.clone() }),
            None => Ok(&self.files),
        }
    }

    /// Returns the paths of the files after the patch, or before it for deleted files. In text
    /// order, without duplicates.
    pub fn paths(&self) -> Vec<RawPath> {
        let mut seen = BTreeSet::new();
        let names = self.files.iter().map(FilePatch::path);
        names.filter(|name| !name.as_bytes().is_empty() && seen.insert(name.clone())).collect()
    }

    /// Returns the paths that the patch reads or writes, sorted, so that the caller can load their
    /// content.
    ///
    /// # Errors
    /// Returns an error if the patch cannot be parsed or names a forbidden path.
    pub fn touched_paths(&self) -> Result<Vec<RawPath>, PatchError> {
        let mut paths = BTreeSet::new();
        for path in
            self.parsed_files()?.iter().flat_map(|file| [&file.old_path, &file.new_path]).flatten()
        {
            guard::check_path(path)?;
            paths.insert(path.clone());
        }
        Ok(paths.into_iter().collect())
    }

    /// Returns the number of added and of removed lines.
    pub fn count_changed_lines(&self) -> (usize, usize) {
        let lines = || self.files.iter().flat_map(FilePatch::hunks).flat_map(|hunk| &hunk.lines);
        let count = |side| lines().filter(|line| line.side == side).count();
        (count(Side::New), count(Side::Old))
    }
}

/// The patch of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// The old path. `None` if the file is created.
    pub old_path: Option<RawPath>,
    /// The new path. `None` if the file is deleted.
    pub new_path: Option<RawPath>,
    pub kind: ChangeKind,
    /// The old Git mode, such as 0o100644 or 0o120000.
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    /// The blob ids in the `index` line, as written.
    pub blob_ids: Option<(String, String)>,
    pub body: Body,
    /// Whether there is no `diff --git` line. Such a patch says less about the intended change.
    pub is_plain: bool,
    /// Whether header lines end in carriage returns. If so, the whole text was probably converted.
    pub has_crlf: bool,
    /// The file's byte range in the text, up to the next file. Empty if the patch was not parsed
    /// from text.
    pub text_range: Range<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChangeKind {
    #[default]
    Change,
    Rename,
    Copy,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Body {
    /// Only the header changes something: the mode, the name, or an empty file.
    #[default]
    Empty,
    Text(Vec<Hunk>),
    Binary {
        forward: BinaryData,
        backward: Option<BinaryData>,
    },
    /// `Binary files a/x and b/x differ`: the patch does not contain the content.
    Withheld,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinaryData {
    Literal(Vec<u8>),
    /// Instructions to copy from the other side or to insert bytes.
    Delta(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The first line of the old side, counted from 1. May be 0 if the side is empty.
    pub old_start: usize,
    pub new_start: usize,
    /// The text after the second `@@`. It is only informational.
    pub section: Vec<u8>,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub side: Side,
    /// The line with its newline, unless the patch says that there is none.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Both,
    Old,
    New,
}

impl FilePatch {
    /// Returns the path after the patch, or before it if the file is deleted.
    pub fn path(&self) -> RawPath {
        self.new_path.clone().or_else(|| self.old_path.clone()).unwrap_or_default()
    }

    /// Returns the hunks. Empty for binary content or if only the header changes something.
    pub fn hunks(&self) -> &[Hunk] {
        match &self.body {
            Body::Text(hunks) => hunks,
            _ => &[],
        }
    }
}

impl Hunk {
    pub(crate) fn old_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(|line| line.side != Side::New).map(|line| &line.bytes[..])
    }

    /// Returns runs of consecutive lines with the same side.
    pub fn runs(&self) -> impl Iterator<Item = (Side, &[Line])> {
        let runs = self.lines.chunk_by(|one, next| one.side == next.side);
        runs.filter_map(|run| Some((run.first()?.side, run)))
    }
}

impl Line {
    /// Returns the line without its line ending.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        text.lines().next().unwrap_or_default().to_owned()
    }
}

pub const MODE_FILE: u32 = 0o100_644;
pub const MODE_EXECUTABLE: u32 = 0o100_755;
pub const MODE_LINK: u32 = 0o120_000;

/// Returns whether a mode marks a submodule commit.
pub(crate) fn is_gitlink(mode: u32) -> bool {
    mode & 0o170_000 == 0o160_000
}

pub(crate) fn is_link(mode: u32) -> bool {
    mode & 0o170_000 == MODE_LINK
}
