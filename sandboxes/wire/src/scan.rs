//! A request to scan for hidden content by fingerprints. Only hashes are sent to the sandbox, never
//! the content itself.

use serde::{Deserialize, Serialize};

use crate::RawPath;

/// Maximum length of a [`Secrets`] document, in bytes of JSON.
pub const SECRETS_LIMIT: usize = 16 << 20;

/// Maximum number of lines in a window.
pub const WINDOW_LINES: usize = 3;

/// What to scan, and the limits. The host then sends the [`Secrets`] on `STDIN` as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanRequest {
    /// Absolute paths of the files and directories to scan. Missing paths are skipped.
    pub roots: Vec<RawPath>,
    /// Absolute paths to skip.
    pub skip: Vec<RawPath>,
    /// Suffixes, without the dot, of the files to read. If absent, all files are read.
    pub suffixes: Option<Vec<String>>,
    /// The limits of the scan.
    pub limits: ScanLimits,
}

/// The limits of a scan. Content beyond them is not scanned, but counted and reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanLimits {
    /// Maximum size of a file in bytes. Larger files are counted but not read.
    pub file_bytes: u64,
    /// Maximum expanded bytes of one compressed stream, or of all entries of one archive.
    pub expanded_bytes: u64,
    /// Maximum depth of nested archives.
    pub depth: u32,
    /// Maximum number of entries. If there are more, the agent rejects the scan.
    pub entries: u64,
    /// Maximum number of findings to report.
    pub findings: u32,
}

/// The content to search for, as hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Blocks of hidden text.
    pub blocks: Vec<Block>,
    /// Names in the hidden modules, to find the modules in bytecode.
    pub names: Vec<NameSet>,
    /// Hidden modules, which must not be importable. Each is a path relative to an import root,
    /// without a suffix: `package/module`.
    pub modules: Vec<String>,
    /// Names of directories that are import roots, such as `site-packages`.
    pub import_roots: Vec<String>,
}

/// A block of hidden text, as hashes of consecutive lines (see
/// [`crate::fingerprint::hash_window`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// How many distinct windows must be found to count as a copy.
    pub need: u32,
    /// Number of lines in each window, from 1 to [`WINDOW_LINES`].
    pub lines: u8,
    /// One hash per window.
    pub windows: Vec<u64>,
}

/// The names in the hidden part of a module, as hashes (see [`crate::fingerprint::hash_bytes`]).
/// Bytecode keeps these names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameSet {
    /// The module, as in [`Secrets::modules`].
    pub module: String,
    /// How many of the names must be found in this module's bytecode to count as a copy.
    pub need: u32,
    /// How many of the names must be found in any other bytecode to count as a copy.
    pub need_elsewhere: u32,
    /// One hash per name.
    pub names: Vec<u64>,
}

/// The findings of a scan, and its statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReply {
    /// The findings in the order of the walk, at most [`ScanLimits::findings`].
    pub findings: Vec<Finding>,
    /// Whether there are more findings than the limit.
    pub more: bool,
    /// Number of files that were read.
    pub files: u64,
    /// Number of bytes that were read, before any expansion.
    pub bytes: u64,
    /// Number of files above the size limit, and of streams that were truncated at the expansion
    /// limit.
    pub too_large: u64,
    /// Number of archives that were nested too deeply.
    pub too_deep: u64,
    /// Number of unreadable files, and of archives that are corrupt or use an unsupported method.
    pub unreadable: u64,
    /// How long the scan took, in microseconds.
    pub took_us: u64,
}

/// A location with hidden content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The absolute path of the file in the sandbox.
    pub path: RawPath,
    /// The path inside nested archives, outermost first.
    pub inside: Vec<RawPath>,
    /// What was found.
    pub what: FindingKind,
}

/// What was found, with the index of the matching entry in the [`Secrets`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FindingKind {
    /// Lines of the hidden text.
    Text {
        /// Index in [`Secrets::blocks`].
        block: u32,
        /// Number of the block's windows that were found.
        matched: u32,
    },
    /// Bytecode of a hidden module.
    Bytecode {
        /// Index in [`Secrets::names`].
        set: u32,
        /// Number of the set's names that were found.
        matched: u32,
    },
    /// A hidden module, either importable or in an archive.
    Module {
        /// Index in [`Secrets::modules`].
        module: u32,
    },
}
