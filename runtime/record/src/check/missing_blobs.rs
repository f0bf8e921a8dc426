//! Collects blobs that a journal refers to but that are missing.

use std::{collections::HashSet, path::Path};

use proctor_types::{Event, count_with_noun};
use proctor_wire::SnapshotEntry;

use super::corruption::{Corruption, Remedy};
use crate::{Blobs, Tree};

/// Collects missing blobs and reports at most two problems: one for the trial's pack and one for
/// the run's directory. A list of every blob in a removed directory would fill pages. If any of the
/// missing blobs is needed for the score, the whole problem gets that blob's remedy.
#[derive(Debug, Default)]
pub(super) struct MissingBlobs {
    /// Blobs that were stored in the run's directory instead of the pack: the initial files and
    /// large content.
    shared_hashes: HashSet<String>,
    pack_loss: Option<(usize, Remedy)>,
    /// The first missing hash, the number of missing blobs, and the remedy.
    folder_loss: Option<(String, usize, Remedy)>,
}

impl MissingBlobs {
    /// If the event names the trial's initial tree, remembers that the tree and its files are
    /// shared blobs.
    pub(super) fn add_initial_files(&mut self, event: &Event, blobs: &Blobs) {
        let (Event::SetupFinished { base_snapshot: hash, .. }
        | Event::TrialForked { snapshot: hash, .. }) = event
        else {
            return;
        };
        self.shared_hashes.insert(hash.clone());
        if let Ok(tree) = Tree::load(blobs, hash) {
            self.add_shared(tree.entries.values());
        }
    }

    pub(super) fn add_shared<'a>(&mut self, entries: impl Iterator<Item = &'a SnapshotEntry>) {
        self.shared_hashes.extend(entries.filter_map(|entry| entry.hash.clone()));
    }

    pub(super) fn add(&mut self, hash: &str, remedy: &Remedy) {
        let graver = |old: &mut Remedy| {
            if *old != Remedy::RestoreFromCopy {
                *old = remedy.clone();
            }
        };
        if self.shared_hashes.contains(hash) {
            let (_, count, old) =
                self.folder_loss.get_or_insert_with(|| (hash.to_owned(), 0, remedy.clone()));
            *count += 1;
            graver(old);
        } else {
            let (count, old) = self.pack_loss.get_or_insert_with(|| (0, remedy.clone()));
            *count += 1;
            graver(old);
        }
    }

    pub(super) fn into_corruptions(
        self,
        pack: &Path,
        shared_blobs: &Blobs,
    ) -> impl Iterator<Item = Corruption> {
        let of_folder = self.folder_loss.map(|(hash, count, remedy)| {
            let path = shared_blobs
                .shared_blob_path(&hash)
                .unwrap_or_else(|_| shared_blobs.root().to_owned());
            let why = match count - 1 {
                0 => "missing, but the journal refers to it".to_owned(),
                more => format!(
                    "missing, along with {} that the journal refers to",
                    count_with_noun(more, "other blob")
                ),
            };
            Corruption::new(path, why, remedy)
        });
        let of_pack = self.pack_loss.map(|(count, remedy)| {
            let how = if pack.exists() { "does not contain" } else { "missing, along with" };
            let why =
                format!("{how} {} that the journal refers to", count_with_noun(count, "blob"));
            Corruption::new(pack.to_owned(), why, remedy)
        });
        of_folder.into_iter().chain(of_pack)
    }
}
