//! The state that the agent keeps between captures of what changed outside the work directory.

use std::collections::HashMap;

use super::{super::table::EntryState, list::WrittenEntries, non_file_state::NonFileState};

/// The state kept between captures.
#[derive(Default)]
pub struct LayerState {
    /// The written entries at the agent's start; `None` if they were not recorded.
    pub(super) baseline: Option<WrittenEntries>,
    pub(super) non_file_state: NonFileState,
    /// The entries that the last capture read, by path.
    pub(super) last_read_entries: HashMap<Vec<u8>, EntryState>,
    /// The hash of the last reply.
    pub(super) last_reply_hash: Option<[u8; 32]>,
}
