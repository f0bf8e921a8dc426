//! What a back end caches between runs.

use std::time::SystemTime;

/// Something on disk that a back end created and can recreate, such as a built environment or an
/// unpacked base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Human-readable description: `layer 0123456789ab`.
    pub what: String,
    /// Size on disk.
    pub bytes: u64,
    /// Creation time; `None` if unknown.
    pub made: Option<SystemTime>,
    /// The back end's internal name for it.
    pub handle: String,
}
