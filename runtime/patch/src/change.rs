//! The result of resolving a patch, and how it fails.

use proctor_types::one_line;
use proctor_wire::RawPath;

/// One file's change, resolved against a base: what to do, independent of how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Write { path: RawPath, bytes: Vec<u8>, mode: Option<u32> },
    Symlink { path: RawPath, target: RawPath },
    Remove { path: RawPath },
}

/// The current file at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Current {
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: RawPath },
}

/// A patch, resolved as far as it can be applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    pub changes: Vec<Change>,
    /// Parts that were left out or interpreted differently, one sentence each.
    pub left_out: Vec<String>,
}

/// A patch that cannot be parsed or does not apply. Gives the file, the hunk and a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("cannot read the patch: {}", one_line(why))]
    Malformed { why: String },
    #[error("{}", one_line(&format!("{path}: {why}")))]
    Refused { path: RawPath, why: String },
    #[error("{}", one_line(&format!("{path}: hunk {hunk} does not apply: {why}")))]
    Conflict { path: RawPath, hunk: usize, why: String },
}
