//! A parsed patch: one value per file and per hunk.

use std::{collections::BTreeSet, ops::Range};

use proctor_wire::RawPath;

use crate::{PatchError, guard};

/// A patch, as far as it could be parsed.
#[derive(Debug, Clone)]
pub struct Patch {
    /// In the order of the text.
    pub files: Vec<FilePatch>,
    /// The first error in the text.
    pub(crate) wrong: Option<String>,
    /// What was read although the text is incomplete there, one sentence each.
    pub(crate) repairs: Vec<String>,
}

impl Patch {
    /// # Errors
    /// Part of the text could not be parsed.
    pub(crate) fn sound(&self) -> Result<&[FilePatch], PatchError> {
        match &self.wrong {
            Some(why) => Err(PatchError::Malformed { why: why.clone() }),
            None => Ok(&self.files),
        }
    }

    /// The paths of its files after it is applied, or before for deleted ones: in order, without
    /// duplicates.
    pub fn names(&self) -> Vec<RawPath> {
        let mut seen = BTreeSet::new();
        let names = self.files.iter().map(FilePatch::name);
        names.filter(|name| !name.as_bytes().is_empty() && seen.insert(name.clone())).collect()
    }

    /// The paths that it reads or writes, sorted, so that the caller can fetch their content.
    ///
    /// # Errors
    /// The patch cannot be parsed, or names a path that no patch may touch.
    pub fn touched(&self) -> Result<Vec<RawPath>, PatchError> {
        let mut paths = BTreeSet::new();
        for path in self.sound()?.iter().flat_map(|file| [&file.old, &file.new]).flatten() {
            guard::check_path(path)?;
            paths.insert(path.clone());
        }
        Ok(paths.into_iter().collect())
    }

    /// Number of lines added and removed.
    pub fn added_and_removed(&self) -> (usize, usize) {
        let lines = || self.files.iter().flat_map(FilePatch::hunks).flat_map(|hunk| &hunk.lines);
        let count = |side| lines().filter(|line| line.side == side).count();
        (count(Side::New), count(Side::Old))
    }
}

/// A patch's entry for one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// Absent if the file is created.
    pub old: Option<RawPath>,
    /// Absent if it is removed.
    pub new: Option<RawPath>,
    pub how: How,
    /// Git modes, such as 0o100644 and 0o120000.
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    /// The blob ids of the `index` line, as written.
    pub index: Option<(String, String)>,
    pub body: Body,
    /// It came without a `diff --git` line, so less is known about what is meant.
    pub plain: bool,
    /// Its header lines end in carriage returns: the whole text may have passed through another
    /// system.
    pub crlf: bool,
    /// Its range in the text, up to the next file. Empty if the patch was not parsed from text.
    pub text: Range<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum How {
    #[default]
    Change,
    Rename,
    Copy,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Body {
    /// Only the header changes something: a mode, a name, an empty file.
    #[default]
    Empty,
    Text(Vec<Hunk>),
    Binary {
        forward: Data,
        backward: Option<Data>,
    },
    /// `Binary files a/x and b/x differ`: the content is not in the patch.
    Withheld,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Literal(Vec<u8>),
    /// Copy and insert instructions against the other side.
    Delta(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Counted from 1; 0 only for an empty side.
    pub old_start: usize,
    pub new_start: usize,
    /// The text after the second `@@`, for people.
    pub section: Vec<u8>,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub side: Side,
    /// With its newline, unless the patch says that there is none.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Both,
    Old,
    New,
}

impl FilePatch {
    /// The path after the patch, or before it if the file is removed.
    pub fn name(&self) -> RawPath {
        self.new.clone().or_else(|| self.old.clone()).unwrap_or_default()
    }

    /// Empty for binary content, and if only the header changes something.
    pub fn hunks(&self) -> &[Hunk] {
        match &self.body {
            Body::Text(hunks) => hunks,
            _ => &[],
        }
    }
}

impl Hunk {
    /// The lines of the old side.
    pub(crate) fn old_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(|line| line.side != Side::New).map(|line| &line.bytes[..])
    }

    /// Runs of consecutive lines of one side.
    pub fn runs(&self) -> impl Iterator<Item = (Side, &[Line])> {
        let runs = self.lines.chunk_by(|one, next| one.side == next.side);
        runs.filter_map(|run| Some((run.first()?.side, run)))
    }
}

impl Line {
    /// Without its line ending.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        text.lines().next().unwrap_or_default().to_owned()
    }
}

pub const MODE_FILE: u32 = 0o100_644;
pub const MODE_EXECUTABLE: u32 = 0o100_755;
pub const MODE_LINK: u32 = 0o120_000;

/// The commit of a submodule.
pub(crate) fn is_gitlink(mode: u32) -> bool {
    mode & 0o170_000 == 0o160_000
}

pub(crate) fn is_link(mode: u32) -> bool {
    mode & 0o170_000 == MODE_LINK
}
