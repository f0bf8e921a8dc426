//! An entry in a back end's cache, which persists between runs.

use std::time::SystemTime;

/// Something on disk that a back end created and can recreate, such as a built environment or an
/// unpacked base image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// A human-readable description, such as `layer 0123456789ab`.
    pub description: String,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// Creation time; `None` if unknown.
    pub created_at: Option<SystemTime>,
    /// The back end's internal name for the entry.
    pub backend_id: String,
}
