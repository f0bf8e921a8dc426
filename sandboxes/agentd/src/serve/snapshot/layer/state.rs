//! The state outside the work directory that the agent keeps between requests.

use std::collections::HashMap;

use super::{super::table::EntryState, list::WrittenEntries, non_file_state::NonFileState};

/// The state kept between requests.
#[derive(Default)]
pub struct LayerState {
    /// The state at the agent's start; `None` if it was not recorded.
    pub(super) base: Option<WrittenEntries>,
    pub(super) beside: NonFileState,
    /// Entries whose content was read, by path.
    pub(super) read: HashMap<Vec<u8>, EntryState>,
    /// The hash of the last reply.
    pub(super) told: Option<[u8; 32]>,
}
