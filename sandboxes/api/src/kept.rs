//! What a back end caches between runs.

use std::time::SystemTime;

/// Something on disk that a back end created and can recreate: a built environment, an unpacked
/// base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// For people: `layer 0123456789ab`.
    pub what: String,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was created; absent if unknown.
    pub made: Option<SystemTime>,
    /// The back end's own name for it.
    pub handle: String,
}
