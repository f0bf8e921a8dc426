//! The state that the agent keeps between snapshots.

use std::collections::{HashMap, HashSet};

use proctor_wire::RawPath;

use super::{layer::LayerState, root::FileId, table::Table};

/// The last state of each root, and the hashes of the content sent over this connection.
#[derive(Default)]
pub struct SnapshotState {
    pub tables: HashMap<RawPath, Table>,
    /// Each root's identity at its first snapshot.
    pub roots: HashMap<RawPath, FileId>,
    pub hashes: HashSet<[u8; 32]>,
    /// The state outside the work directory.
    pub layer: LayerState,
}
