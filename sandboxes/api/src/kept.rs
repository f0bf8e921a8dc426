//! What a back end keeps from run to run.

use std::time::SystemTime;

/// Something on disk that a back end made and can make again: a built environment, an unpacked base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// For people: `layer 0123456789ab`.
    pub what: String,
    /// Its size on disk.
    pub bytes: u64,
    /// When it was made; absent where that is not known.
    pub made: Option<SystemTime>,
    /// The back end's own name of it.
    pub handle: String,
}
