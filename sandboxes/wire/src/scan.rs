//! A search for hidden content by fingerprint: the sandbox is told hashes, never the content itself.

use serde::{Deserialize, Serialize};

use crate::RawPath;

/// The longest [`Secrets`] document, in bytes of JSON.
pub const SECRETS_LIMIT: usize = 16 << 20;

/// Lines of one window, at most.
pub const WINDOW_LINES: usize = 3;

/// Where to look, and how far. The [`Secrets`] follow on `STDIN` as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanRequest {
    /// Files and folders, absolute. What does not exist is passed over.
    pub roots: Vec<RawPath>,
    /// Absolute paths that are not entered.
    pub skip: Vec<RawPath>,
    /// Look only into files with one of these suffixes (without the dot); absent: into all.
    pub suffixes: Option<Vec<String>>,
    /// How far to look.
    pub limits: ScanLimits,
}

/// Limits of a search. What is past them is counted and reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanLimits {
    /// Bytes of one file; larger ones are counted, not read.
    pub file_bytes: u64,
    /// Bytes that one compressed stream, or all entries of one archive, may expand to.
    pub expanded_bytes: u64,
    /// Archives within archives.
    pub depth: u32,
    /// Entries walked; the scan is refused past them.
    pub entries: u64,
    /// Findings reported.
    pub findings: u32,
}

/// What must not be found, as hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Pieces of the hidden text.
    pub blocks: Vec<Block>,
    /// Names of the hidden modules, to find them in bytecode.
    pub names: Vec<NameSet>,
    /// Modules that must not be importable, as paths below an import root without a suffix:
    /// `package/module`.
    pub modules: Vec<String>,
    /// Names of folders that are import roots, such as `site-packages`.
    pub import_roots: Vec<String>,
}

/// A piece of text, as [`crate::print::window`] hashes of successive lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Distinct windows that make a copy.
    pub need: u32,
    /// Lines of each window, 1 to [`WINDOW_LINES`].
    pub lines: u8,
    /// One hash for each window.
    pub windows: Vec<u64>,
}

/// Names that occur in the hidden part of one module, as [`crate::print::bytes`] hashes: compiled
/// code keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameSet {
    /// The module, as in [`Secrets::modules`]. Bytecode that carries its name needs `need` of the
    /// names, any other `need_elsewhere`.
    pub module: String,
    /// Names that bytecode of this module must hold to be a finding.
    pub need: u32,
    /// Names that bytecode of any other name must hold.
    pub need_elsewhere: u32,
    /// One hash for each name.
    pub names: Vec<u64>,
}

/// What a search found, and how much it looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReply {
    /// At most [`ScanLimits::findings`], in the order of the walk.
    pub findings: Vec<Finding>,
    /// There are more than the limit allows to report.
    pub more: bool,
    /// Files read.
    pub files: u64,
    /// Bytes read, before any expansion.
    pub bytes: u64,
    /// Files past the limit of bytes, and streams cut at the limit of expansion.
    pub too_large: u64,
    /// Archives that lie too deep to be opened.
    pub too_deep: u64,
    /// Files that could not be read, and archives that are damaged or use another method.
    pub unreadable: u64,
    /// Microseconds.
    pub took_us: u64,
}

/// One place that holds hidden content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The file of the sandbox, absolute.
    pub path: RawPath,
    /// The way from there through archives, outermost first.
    pub inside: Vec<RawPath>,
    /// What was found there.
    pub what: Found,
}

/// What a finding is, by its index in the [`Secrets`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Found {
    /// Lines of the hidden text.
    Text {
        /// Which of [`Secrets::blocks`].
        block: u32,
        /// How many of its windows were found.
        matched: u32,
    },
    /// Compiled code of a hidden module.
    Bytecode {
        /// Which of [`Secrets::names`].
        set: u32,
        /// How many of its names were found.
        matched: u32,
    },
    /// A hidden module, importable or packed.
    Module {
        /// Which of [`Secrets::modules`].
        module: u32,
    },
}
