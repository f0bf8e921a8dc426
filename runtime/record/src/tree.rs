//! A tree: the sorted manifest of a work directory at one point in time.

use std::collections::BTreeMap;

use proctor_wire::{RawPath, SnapshotEntry, SnapshotReply};
use serde::{Deserialize, Serialize, Serializer};

/// The manifest format version.
const MANIFEST_VERSION: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    pub entries: BTreeMap<RawPath, SnapshotEntry>,
    /// Directories that the last snapshot did not scan completely. Their entries here come from
    /// earlier snapshots.
    pub unwalked_dirs: Vec<RawPath>,
}

/// A path that differs between two trees. At least one of the trees contains the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeDifference<'a> {
    pub path: &'a RawPath,
    pub base: Option<&'a SnapshotEntry>,
    pub end: Option<&'a SnapshotEntry>,
}

/// The manifest format for parsing. [`ManifestOutput`] is its counterpart for output.
#[derive(Deserialize)]
struct Manifest {
    manifest: u32,
    entries: Vec<SnapshotEntry>,
    #[serde(default)]
    unwalked: Vec<RawPath>,
}

/// The manifest format for output. It borrows the entries, because a manifest is written after
/// every step with changes, and copying the entries took longer than everything else.
#[derive(Serialize)]
struct ManifestOutput<'a> {
    manifest: u32,
    #[serde(serialize_with = "entries")]
    entries: &'a BTreeMap<RawPath, SnapshotEntry>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unwalked: &'a [RawPath],
}

fn entries<S: Serializer>(
    tree_entries: &BTreeMap<RawPath, SnapshotEntry>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tree_entries.values())
}

impl Tree {
    /// Applies one snapshot's changes to the tree.
    pub fn apply_snapshot(&mut self, reply: &SnapshotReply) {
        for path in &reply.removed {
            self.entries.remove(path);
        }
        for entry in &reply.changed {
            self.entries.insert(entry.path.clone(), entry.clone());
        }
        self.unwalked_dirs.clone_from(&reply.unwalked);
    }

    /// Returns the manifest as JSON. The same tree always yields the same bytes.
    pub fn to_json(&self) -> Vec<u8> {
        let (entries, unwalked) = (&self.entries, &self.unwalked_dirs[..]);
        // Serializing cannot fail, because the value contains only text, numbers and lists.
        serde_json::to_vec(&ManifestOutput { manifest: MANIFEST_VERSION, entries, unwalked })
            .unwrap_or_default()
    }

    /// Parses the output of [`Tree::to_json`]. The error describes why the bytes are invalid.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Manifest =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if manifest.manifest != MANIFEST_VERSION {
            return Err(format!("unknown manifest version {}", manifest.manifest));
        }
        let entries = manifest.entries.into_iter().map(|entry| (entry.path.clone(), entry));
        Ok(Self { entries: entries.collect(), unwalked_dirs: manifest.unwalked })
    }

    /// Returns the BLAKE3 of the manifest as hex digits. This is the hash that [`Tree::save`]
    /// returns.
    pub fn digest(&self) -> String {
        blake3::hash(&self.to_json()).to_hex().to_string()
    }

    /// Returns the paths whose entries differ in any way, sorted by their bytes.
    pub fn diff<'a>(&'a self, end: &'a Self) -> impl Iterator<Item = TreeDifference<'a>> {
        let gone_or_changed = self.entries.iter().map(|(path, base)| TreeDifference {
            path,
            base: Some(base),
            end: end.entries.get(path),
        });
        let made = end
            .entries
            .iter()
            .filter(|(path, _)| !self.entries.contains_key(*path))
            .map(|(path, entry)| TreeDifference { path, base: None, end: Some(entry) });
        let mut all: Vec<_> =
            gone_or_changed.filter(|one| one.base != one.end).chain(made).collect();
        all.sort_by_key(|one| one.path);
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proctor_wire::EntryKind;

    use super::*;

    fn file_entry(path: &[u8], content: &[u8]) -> SnapshotEntry {
        SnapshotEntry {
            path: RawPath::new(path),
            kind: EntryKind::File,
            mode: 0o644,
            size: content.len() as u64,
            hash: Some(blake3::hash(content).to_hex().to_string()),
            link: None,
        }
    }

    fn tree_with_entries(entries: &[SnapshotEntry]) -> Tree {
        let mut tree = Tree::default();
        tree.apply_snapshot(&SnapshotReply {
            changed: entries.to_vec(),
            ..SnapshotReply::default()
        });
        tree
    }

    #[test]
    fn tree_differences_are_sorted_and_complete() {
        let base = tree_with_entries(&[
            file_entry(b"a", b"1"),
            file_entry(b"b", b"1"),
            file_entry(b"c", b"1"),
        ]);
        let mut end = base.clone();
        end.apply_snapshot(&SnapshotReply {
            changed: vec![file_entry(b"aa", b"new"), file_entry(b"c", b"2")],
            removed: vec!["a".into()],
            ..SnapshotReply::default()
        });
        let seen: Vec<_> = base
            .diff(&end)
            .map(|one| (one.path.to_string(), one.base.is_some(), one.end.is_some()))
            .collect();
        let expected = [("a", true, false), ("aa", false, true), ("c", true, true)];
        assert_eq!(seen, expected.map(|(path, base, end)| (path.to_owned(), base, end)));
        assert_eq!(base.diff(&base).count(), 0);
        assert_ne!(base.digest(), end.digest());
    }
}
