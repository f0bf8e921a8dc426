//! Small trees in memory, and as manifests.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test helper fails by panic")]

use std::collections::BTreeMap;

use proctor_record::{
    Blobs, Tree,
    patch::{self, Change, Current, PatchError},
};
use proctor_wire::{EntryKind, RawPath, SnapEntry};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Content, executable.
    File(Vec<u8>, bool),
    Link(Vec<u8>),
}

/// By path.
pub type Nodes = BTreeMap<Vec<u8>, Node>;

pub fn file(text: &str) -> Node {
    Node::File(text.as_bytes().to_vec(), false)
}

/// The manifest, with the contents among the blobs.
pub fn tree_of(nodes: &Nodes, blobs: &Blobs) -> Tree {
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
        let entry = SnapEntry {
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

/// The tree after our own `resolve`.
pub fn resolved(base: &Nodes, patch: &[u8]) -> Result<Nodes, PatchError> {
    let current = |path: &RawPath| {
        base.get(path.as_bytes()).map(|node| match node.clone() {
            Node::File(bytes, run) => {
                Current::File { bytes, mode: if run { 0o755 } else { 0o644 } }
            }
            Node::Link(target) => Current::Link { target: RawPath(target) },
        })
    };
    let mut after = base.clone();
    for change in patch::resolve(patch, &current)? {
        match change {
            Change::Remove { path } => {
                assert!(after.remove(&path.0).is_some(), "{path} was not there");
            }
            Change::Symlink { path, target } => {
                after.insert(path.0, Node::Link(target.0));
            }
            Change::Write { path, bytes, mode } => {
                let run = mode.expect("a mode") & 0o100 != 0;
                after.insert(path.0, Node::File(bytes, run));
            }
        }
    }
    Ok(after)
}
