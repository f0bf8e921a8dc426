//! A tree: the sorted manifest of a work directory at one moment.

use std::collections::BTreeMap;

use proctor_wire::{RawPath, SnapEntry, SnapshotReply};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    pub entries: BTreeMap<RawPath, SnapEntry>,
}

impl Tree {
    /// Lays one snapshot's changes over the tree.
    pub fn advance(&mut self, reply: &SnapshotReply) {
        for path in &reply.removed {
            self.entries.remove(path);
        }
        for entry in &reply.changed {
            self.entries.insert(entry.path.clone(), entry.clone());
        }
    }
}
