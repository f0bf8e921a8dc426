//! A scan for hidden content by fingerprint. The sandbox receives hashes, never the content itself.

use serde::{Deserialize, Serialize};

use crate::RawPath;

/// Maximum length of a [`Secrets`] document, in bytes of JSON.
pub const SECRETS_LIMIT: usize = 16 << 20;

/// Maximum number of lines in a window.
pub const WINDOW_LINES: usize = 3;

/// What to scan, and the limits. The [`Secrets`] follow on `STDIN` as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanRequest {
    /// Files and directories to scan, absolute. Missing ones are skipped.
    pub roots: Vec<RawPath>,
    /// Absolute paths that are skipped.
    pub skip: Vec<RawPath>,
    /// Reads only files with one of these suffixes (without the dot). If absent, all files are
    /// read.
    pub suffixes: Option<Vec<String>>,
    /// The limits.
    pub limits: ScanLimits,
}

/// Limits of a scan. Content beyond them is counted and reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanLimits {
    /// Maximum bytes of one file; larger ones are counted, not read.
    pub file_bytes: u64,
    /// Maximum expanded bytes of one compressed stream, or of all entries of one archive.
    pub expanded_bytes: u64,
    /// Maximum nesting of archives.
    pub depth: u32,
    /// Maximum number of entries. The scan is rejected above it.
    pub entries: u64,
    /// Maximum number of reported findings.
    pub findings: u32,
}

/// What to search for, as hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Blocks of the hidden text.
    pub blocks: Vec<Block>,
    /// Names of the hidden modules, to find them in bytecode.
    pub names: Vec<NameSet>,
    /// Modules that must not be importable, as paths relative to an import root, without a suffix:
    /// `package/module`.
    pub modules: Vec<String>,
    /// Names of directories that are import roots, such as `site-packages`.
    pub import_roots: Vec<String>,
}

/// A block of text, as [`crate::fingerprint::hash_window`] hashes of consecutive lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Number of distinct windows that count as a copy.
    pub need: u32,
    /// Number of lines in each window, from 1 to [`WINDOW_LINES`].
    pub lines: u8,
    /// One hash per window.
    pub windows: Vec<u64>,
}

/// Names in the hidden part of one module, as [`crate::fingerprint::hash_bytes`] hashes. Bytecode keeps these
/// names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameSet {
    /// The module, as in [`Secrets::modules`]. Bytecode of this module needs `need` of the names to
    /// be a finding, other bytecode `need_elsewhere`.
    pub module: String,
    /// Number of names that make bytecode of this module a finding.
    pub need: u32,
    /// Number of names that make any other bytecode a finding.
    pub need_elsewhere: u32,
    /// One hash per name.
    pub names: Vec<u64>,
}

/// The findings of a scan and its statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReply {
    /// Findings in walking order, at most [`ScanLimits::findings`].
    pub findings: Vec<Finding>,
    /// Whether there are more findings than the limit.
    pub more: bool,
    /// Number of files read.
    pub files: u64,
    /// Bytes read, before any expansion.
    pub bytes: u64,
    /// Files above the size limit, and streams cut at the expansion limit.
    pub too_large: u64,
    /// Archives above the nesting limit.
    pub too_deep: u64,
    /// Unreadable files, and archives that are corrupt or use an unsupported method.
    pub unreadable: u64,
    /// Duration in microseconds.
    pub took_us: u64,
}

/// One location with hidden content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The file in the sandbox, absolute.
    pub path: RawPath,
    /// The path inside nested archives, outermost first.
    pub inside: Vec<RawPath>,
    /// What was found.
    pub what: FindingKind,
}

/// The type of a finding, with the matching entry's index in the [`Secrets`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FindingKind {
    /// Lines of the hidden text.
    Text {
        /// Index in [`Secrets::blocks`].
        block: u32,
        /// Number of its windows that were found.
        matched: u32,
    },
    /// Bytecode of a hidden module.
    Bytecode {
        /// Index in [`Secrets::names`].
        set: u32,
        /// Number of its names that were found.
        matched: u32,
    },
    /// A hidden module, either importable or in an archive.
    Module {
        /// Index in [`Secrets::modules`].
        module: u32,
    },
}
