//! The result of resolving a patch, and its errors.

use proctor_types::one_line;
use proctor_wire::RawPath;

/// The change to one file, resolved against a base. It does not depend on how the patch expresses
/// the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Write { path: RawPath, bytes: Vec<u8>, mode: Option<u32> },
    Symlink { path: RawPath, target: RawPath },
    Remove { path: RawPath },
}

/// The current file at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CurrentFile {
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: RawPath },
}

/// The parts of a patch that can be applied, after resolving them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedPatch {
    pub changes: Vec<Change>,
    /// Notes on parts of the patch that were skipped or not interpreted literally, one sentence
    /// each.
    pub skipped_parts: Vec<String>,
}

/// Why a patch cannot be parsed or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("cannot read the patch: {}", one_line(why))]
    Malformed { why: String },
    #[error("{}", one_line(&format!("{path}: {why}")))]
    Refused { path: RawPath, why: String },
    #[error("{}", one_line(&format!("{path}: hunk {hunk} does not apply: {why}")))]
    Conflict { path: RawPath, hunk: usize, why: String },
}
