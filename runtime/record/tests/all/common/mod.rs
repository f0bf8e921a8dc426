//! Converts small trees in memory to manifests.

#![expect(clippy::unwrap_used, reason = "a test helper fails by panic")]

pub mod git;
#[path = "../../../../patch/tests/all/common/mod.rs"]
mod nodes;

pub use nodes::{Node, Nodes, file, resolve_on};
use proctor_record::{Blobs, Tree};
use proctor_wire::{EntryKind, RawPath, SnapshotEntry};

/// Stores the files' contents as blobs and returns the manifest.
pub fn tree_from_nodes(nodes: &Nodes, blobs: &Blobs) -> Tree {
    let mut tree = Tree::default();
    for (path, node) in nodes {
        let path = RawPath::new(path.clone());
        let (kind, mode, bytes, link) = match node {
            Node::File(bytes, run) => {
                (EntryKind::File, if *run { 0o755 } else { 0o644 }, bytes, None)
            }
            Node::Link(target) => {
                (EntryKind::Link, 0o777, target, Some(RawPath::new(target.clone())))
            }
        };
        let entry = SnapshotEntry {
            path: path.clone(),
            kind,
            mode,
            size: bytes.len() as u64,
            hash: Some(blobs.put(bytes).unwrap()),
            link,
        };
        tree.entries.insert(path, entry);
    }
    tree
}
