//! Reads the initial state of a trial's work directory from the record.

use std::sync::Arc;

use proctor_record::{Blobs, Remedy, RunDir, Tree, read_journal};
use proctor_sandbox_api::wire::{EntryKind, RawPath};
use proctor_scaffold_api::InitialTree;
use proctor_types::{Event, Fault, FaultLayer, TrialId, remove_discarded_events};

use crate::error::record_fault;

/// Returns the initial state of a recorded trial's work directory. It is masked and does not
/// contain the task's hidden files.
///
/// # Errors
/// Fails if the record cannot be read, or if the trial never started.
pub fn trial_start_tree(run: &RunDir, id: &TrialId) -> Result<Arc<dyn InitialTree>, Fault> {
    let dir = run.trial_dir(id);
    let reading = read_journal(dir.trajectory_path()).map_err(record_fault)?;
    let begun = remove_discarded_events(reading.events).into_iter().find_map(|envelope| {
        match envelope.event {
            Event::SetupFinished { base_snapshot, .. } => Some(base_snapshot),
            _ => None,
        }
    });
    let digest = begun.ok_or_else(|| {
        Fault::new(
            FaultLayer::Record,
            format!("{id}: the journal does not name the initial file tree"),
        )
        .hint(Remedy::RestoreFromCopy.hint())
        .into_permanent()
    })?;
    let blobs = run.trial_blobs(&dir);
    let tree = Arc::new(Tree::load(&blobs, &digest).map_err(record_fault)?);
    Ok(Arc::new(RecordedTree { digest, tree, blobs }))
}

/// A recorded tree, and the blobs that store its files' contents.
pub(crate) struct RecordedTree {
    pub(crate) digest: String,
    pub(crate) tree: Arc<Tree>,
    pub(crate) blobs: Blobs,
}

impl InitialTree for RecordedTree {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn files(&self) -> Vec<(String, u64)> {
        let files = self.tree.entries.values().filter(|entry| entry.kind == EntryKind::File);
        files
            .filter_map(|entry| {
                let path = std::str::from_utf8(entry.path.as_bytes()).ok()?;
                Some((path.to_owned(), entry.size))
            })
            .collect()
    }

    fn mode(&self, path: &str) -> Option<u32> {
        let entry = self.tree.entries.get(&RawPath::from(path))?;
        match entry.kind {
            EntryKind::File if entry.mode & 0o100 != 0 => Some(proctor_patch::MODE_EXECUTABLE),
            EntryKind::File => Some(proctor_patch::MODE_FILE),
            EntryKind::Link => Some(proctor_patch::MODE_LINK),
            EntryKind::Dir | EntryKind::Other => None,
        }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Fault> {
        let entry = self.tree.entries.get(&RawPath::from(path));
        let Some(entry) = entry else { return Ok(None) };
        if let Some(target) = &entry.link {
            return Ok(Some(target.as_bytes().to_vec()));
        }
        match &entry.hash {
            Some(hash) if entry.kind == EntryKind::File => {
                self.blobs.get(hash).map(Some).map_err(record_fault)
            }
            _ => Ok(None),
        }
    }
}
