//! In-memory file trees.

#![expect(clippy::expect_used, reason = "a test helper fails by panic")]

use std::collections::BTreeMap;

use proctor_patch::{Change, CurrentFile, Patch, PatchError, RawPath};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Content, and whether the file is executable.
    File(Vec<u8>, bool),
    Link(Vec<u8>),
}

/// Nodes by path.
pub type Nodes = BTreeMap<Vec<u8>, Node>;

pub fn file(text: &str) -> Node {
    Node::File(text.as_bytes().to_vec(), false)
}

/// Applies the patch with Proctor's own `resolve` and returns the resulting tree.
pub fn resolve_on(base: &Nodes, patch: &[u8]) -> Result<Nodes, PatchError> {
    let current = |path: &RawPath| {
        base.get(path.as_bytes()).map(|node| match node.clone() {
            Node::File(bytes, run) => {
                CurrentFile::File { bytes, mode: if run { 0o755 } else { 0o644 } }
            }
            Node::Link(target) => CurrentFile::Link { target: RawPath(target) },
        })
    };
    let mut after = base.clone();
    for change in Patch::parse(patch).resolve(&current)? {
        match change {
            Change::Remove { path } => {
                assert!(after.remove(&path.0).is_some(), "{path} did not exist");
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
