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
    pub limits: ScanLimits,
}

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
    pub blocks: Vec<Block>,
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
    pub windows: Vec<u64>,
}

/// Names that occur in the hidden part of one module, as [`crate::print::bytes`] hashes: compiled
/// code keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameSet {
    /// The module, as in [`Secrets::modules`]. Bytecode that carries its name needs `need` of the
    /// names, any other `need_elsewhere`.
    pub module: String,
    pub need: u32,
    pub need_elsewhere: u32,
    pub names: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReply {
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
    pub took_us: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The file of the sandbox, absolute.
    pub path: RawPath,
    /// The way from there through archives, outermost first.
    pub inside: Vec<RawPath>,
    pub what: Found,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Found {
    /// So many windows of [`Secrets::blocks`]`[block]`.
    Text { block: u32, matched: u32 },
    /// So many names of [`Secrets::names`]`[set]`.
    Bytecode { set: u32, matched: u32 },
    /// [`Secrets::modules`]`[module]`, importable or packed.
    Module { module: u32 },
}
