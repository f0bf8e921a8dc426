//! Stores trees as blobs and loads them.

use std::sync::Arc;

use proctor_wire::SnapshotReply;

use crate::{Blobs, RecordError, Tree, error::RESTORE_FROM_COPY_HINT};

impl Tree {
    /// Stores the complete manifest among the shared blobs. Returns its hash, which is the tree's
    /// digest.
    pub fn save(&self, blobs: &Blobs) -> Result<String, RecordError> {
        blobs.put_shared(&self.to_json())
    }

    /// Like [`Tree::save`], but for a tree that [`Tree::apply_snapshot`] created from the tree with
    /// hash `base_hash`. A trial's blobs then store only the changes, but still return the complete
    /// manifest.
    pub fn save_as_diff(
        &self,
        blobs: &Blobs,
        base_hash: &str,
        reply: &SnapshotReply,
    ) -> Result<String, RecordError> {
        blobs.put_tree(self, base_hash, reply)
    }

    pub fn load(blobs: &Blobs, hash: &str) -> Result<Self, RecordError> {
        if let Some(tree) = blobs.get_packed_tree(hash)? {
            return Ok(Arc::unwrap_or_clone(tree));
        }
        Self::from_json(&blobs.get(hash)?).map_err(|why| RecordError::Corrupt {
            path: blobs.root().join(hash),
            why: format!("the blob is not a manifest: {why}"),
            hint: RESTORE_FROM_COPY_HINT,
        })
    }
}

#[cfg(test)]
mod tests {
    use proctor_wire::{EntryKind, RawPath, SnapshotEntry};

    use super::*;

    fn file_entry(path: &[u8], content: &[u8]) -> SnapshotEntry {
        SnapshotEntry {
            path: RawPath::new(path),
            kind: EntryKind::File,
            mode: 0o644,
            size: content.len() as u64,
            hash: Some(Blobs::hash(content)),
            link: None,
        }
    }

    #[test]
    fn tree_round_trips_through_blobs() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(folder.path());
        let mut tree = Tree::default();
        tree.apply_snapshot(&SnapshotReply {
            changed: vec![file_entry(b"a", b"1"), file_entry(b"b\xff\n%", b"2")],
            ..SnapshotReply::default()
        });
        let hash = tree.save(&blobs).unwrap();
        assert_eq!(hash, tree.digest());
        assert_eq!(Tree::load(&blobs, &hash).unwrap(), tree);
        let other = blobs.put(b"{}").unwrap();
        assert!(Tree::load(&blobs, &other).is_err());
    }
}
