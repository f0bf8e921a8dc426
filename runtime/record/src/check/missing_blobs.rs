//! Collects blobs that a journal refers to but that are missing.

use std::{collections::HashSet, path::Path};

use proctor_types::{Event, plural};
use proctor_wire::SnapshotEntry;

use super::corruption::{Corruption, Remedy};
use crate::{Blobs, Tree};

/// Collects missing blobs and reports at most two problems: one for the trial's pack and one for
/// the run's directory. A list of every blob in a removed directory would fill pages. A problem has
/// the severity of its most important missing blob.
#[derive(Debug, Default)]
pub(super) struct MissingBlobs {
    /// Blobs that were stored in the run's directory instead of the pack: the initial files and
    /// large content.
    shared: HashSet<String>,
    of_pack: Option<(usize, Remedy)>,
    /// The first missing hash, the number of missing blobs, and the remedy.
    of_folder: Option<(String, usize, Remedy)>,
}

impl MissingBlobs {
    /// Remembers the initial files that an event refers to as shared blobs.
    pub(super) fn add_initial_files(&mut self, event: &Event, blobs: &Blobs) {
        let (Event::SetupFinished { base_snapshot: hash, .. }
        | Event::TrialForked { snapshot: hash, .. }) = event
        else {
            return;
        };
        self.shared.insert(hash.clone());
        if let Ok(tree) = Tree::load(blobs, hash) {
            self.add_shared(tree.entries.values());
        }
    }

    pub(super) fn add_shared<'a>(&mut self, entries: impl Iterator<Item = &'a SnapshotEntry>) {
        self.shared.extend(entries.filter_map(|entry| entry.hash.clone()));
    }

    pub(super) fn add(&mut self, hash: &str, remedy: &Remedy) {
        let graver = |old: &mut Remedy| {
            if *old != Remedy::Copy {
                *old = remedy.clone();
            }
        };
        if self.shared.contains(hash) {
            let (_, count, old) =
                self.of_folder.get_or_insert_with(|| (hash.to_owned(), 0, remedy.clone()));
            *count += 1;
            graver(old);
        } else {
            let (count, old) = self.of_pack.get_or_insert_with(|| (0, remedy.clone()));
            *count += 1;
            graver(old);
        }
    }

    pub(super) fn into_corruptions(
        self,
        pack: &Path,
        shared: &Blobs,
    ) -> impl Iterator<Item = Corruption> {
        let of_folder = self.of_folder.map(|(hash, count, remedy)| {
            let path = shared.shared_path(&hash).unwrap_or_else(|_| shared.root().to_owned());
            let why = match count - 1 {
                0 => "missing, but the journal refers to it".to_owned(),
                more => format!(
                    "missing, along with {} that the journal refers to",
                    plural(more, "other blob")
                ),
            };
            Corruption::new(path, why, remedy)
        });
        let of_pack = self.of_pack.map(|(count, remedy)| {
            let how = if pack.exists() { "does not contain" } else { "missing, along with" };
            let why = format!("{how} {} that the journal refers to", plural(count, "blob"));
            Corruption::new(pack.to_owned(), why, remedy)
        });
        of_folder.into_iter().chain(of_pack)
    }
}
