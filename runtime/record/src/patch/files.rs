//! A patch as read: one value a file, one a hunk.

use proctor_wire::RawPath;

/// What a patch says of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// Absent where the file is created.
    pub old: Option<RawPath>,
    /// Absent where it is removed.
    pub new: Option<RawPath>,
    pub how: How,
    /// Git modes, such as 0o100644 and 0o120000.
    pub old_mode: Option<u32>,
    pub new_mode: Option<u32>,
    /// The blob ids of the `index` line, as written.
    pub index: Option<(String, String)>,
    pub body: Body,
    /// It came without a `diff --git` line, which says less of what is meant.
    pub plain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Change,
    Rename,
    Copy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// Only the header changes something: a mode, a name, an empty file.
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
pub(super) enum Data {
    Literal(Vec<u8>),
    /// Copy and insert instructions against the other side.
    Delta(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Counted from 1; 0 only for an empty side.
    pub old_start: usize,
    pub new_start: usize,
    /// What follows the second `@@`, for people.
    pub section: Vec<u8>,
    pub lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub side: Side,
    /// With its newline, unless the patch says that there is none.
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Both,
    Old,
    New,
}

impl FilePatch {
    /// The name by which errors call it.
    pub(super) fn name(&self) -> RawPath {
        self.new.clone().or_else(|| self.old.clone()).unwrap_or_default()
    }
}

impl Hunk {
    pub(super) fn old_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(|line| line.side != Side::New).map(|line| &line.bytes[..])
    }

    pub(super) fn new_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(|line| line.side != Side::Old).map(|line| &line.bytes[..])
    }
}

pub(super) const MODE_FILE: u32 = 0o100_644;
pub(super) const MODE_EXECUTABLE: u32 = 0o100_755;
pub(super) const MODE_LINK: u32 = 0o120_000;

pub(super) fn is_link(mode: u32) -> bool {
    mode & 0o170_000 == MODE_LINK
}
