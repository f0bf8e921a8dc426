//! The state that the agent keeps between snapshots.

use std::{
    collections::{HashMap, HashSet},
    os::fd::OwnedFd,
};

use proctor_wire::RawPath;

use super::{layer::LayerState, table::Table};

/// The last state of each root, and the hashes of the content sent over this connection.
#[derive(Default)]
pub struct SnapshotState {
    pub tables: HashMap<RawPath, Table>,
    /// Each root's directory at its first snapshot. It is kept open: if only its inode number were
    /// kept, another directory could get that number once the root is removed.
    pub roots: HashMap<RawPath, OwnedFd>,
    pub hashes: HashSet<[u8; 32]>,
    /// The state outside the work directory.
    pub layer: LayerState,
}
