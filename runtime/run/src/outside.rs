//! Captures the state of a sandbox outside its work directory after a step, and restores it.

use futures_util::{StreamExt, stream};
use proctor_record::{Blobs, RecordError, Tree};
use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{EntryKind, LayerDiff, LayerEntry, LayerRequest, RawPath},
};
use proctor_types::{Fault, FaultCause, FaultLayer, OutsideState};

/// Number of concurrent file writes. Each write is a round trip to the sandbox and spends most of
/// its time waiting.
const MAX_CONCURRENT_WRITES: usize = 16;

/// Maximum number of entries that a resumable trial may write outside the work directory.
const MAX_OUTSIDE_ENTRIES: u64 = 100_000;

/// Limits on the recorded state outside the work directory, per trial. If a trial exceeds them, it
/// starts over after an interruption instead of resuming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideLimits {
    /// Maximum size of a file, in bytes.
    pub file_bytes: u64,
    /// Maximum size of all files together, in bytes.
    pub bytes: u64,
    /// Maximum number of entries.
    pub entries: u64,
}

impl Default for OutsideLimits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, bytes: 256 << 20, entries: MAX_OUTSIDE_ENTRIES }
    }
}

impl OutsideLimits {
    /// Combines two sets of limits, taking the larger value of each.
    #[must_use]
    pub(crate) fn max_of_each(self, other: Self) -> Self {
        Self {
            file_bytes: self.file_bytes.max(other.file_bytes),
            bytes: self.bytes.max(other.bytes),
            entries: self.entries.max(other.entries),
        }
    }

    /// Returns the request for the state outside `workdir`, whose current content is `tree`.
    pub(crate) fn request(&self, workdir: &RawPath, tree: &Tree, is_fresh: bool) -> LayerRequest {
        LayerRequest {
            fresh: is_fresh,
            workdir: workdir.clone(),
            repositories: find_repositories(workdir, tree),
            listed: false,
            file_limit: self.file_bytes,
            content_limit: self.bytes,
            entry_limit: self.entries,
            files_alone: false,
        }
    }
}

/// A request for the state outside a work directory.
#[derive(Clone, PartialEq)]
pub(crate) struct OutsideRequest {
    pub(crate) layer: LayerRequest,
    /// Whether to wait for the list of changed files, no matter how long listing takes.
    pub(crate) must_be_complete: bool,
}

/// State outside the work directory after a step.
#[derive(Default)]
pub(crate) struct OutsideScan {
    /// `None` if nothing changed.
    pub(crate) state: Option<OutsideState>,
    /// Number of content bytes received from the sandbox.
    pub(crate) bytes: u64,
}

/// Returns the repository directories in a work directory. Snapshots of the work directory list
/// these directories but not their contents.
fn find_repositories(workdir: &RawPath, tree: &Tree) -> Vec<RawPath> {
    let is_repository = |path: &[u8]| path == b".git" || path.ends_with(b"/.git");
    let folders = tree.entries.values().filter(|entry| entry.kind == EntryKind::Dir);
    let found = folders.filter(|entry| is_repository(entry.path.as_bytes()));
    found.map(|entry| workdir.join(&entry.path)).collect()
}

/// Reads a recorded state of the files outside the work directory.
pub(crate) fn load_layer(blobs: &Blobs, digest: &str) -> Result<LayerDiff, RecordError> {
    let bytes = blobs.get(digest)?;
    serde_json::from_slice(&bytes).map_err(|error| RecordError::Corrupt {
        path: blobs.root().to_owned(),
        why: format!("{digest}: invalid sandbox state: {error}"),
        hint: "restore the run directory from a copy",
    })
}

/// Checks that every blob of a recorded state is readable. Without this check, a trial could be
/// resumed from an incomplete record.
pub(crate) fn check_blobs(blobs: &Blobs, digest: &str) -> Result<(), RecordError> {
    let layer = load_layer(blobs, digest)?;
    let files = layer.changed.iter().filter(|one| one.entry.kind == EntryKind::File);
    for hash in files.filter_map(|one| one.entry.hash.as_ref()) {
        blobs.get(hash)?;
    }
    Ok(())
}

/// Restores a recorded state in a fresh sandbox: content, modes, links and owners. Times, hard
/// links and extended attributes are not restored.
///
/// # Errors
/// Fails if a blob is missing or the sandbox rejects an entry. In both cases, the trial must
/// restart.
pub(crate) async fn restore_layer(
    handle: &SandboxHandle,
    blobs: &Blobs,
    layer: &LayerDiff,
) -> Result<(), Fault> {
    for path in &layer.removed {
        let removed = handle.remove(&to_absolute(path)).await;
        removed.map_err(|error| entry_fault(path, &error))?;
    }
    let (folders, others): (Vec<&LayerEntry>, Vec<&LayerEntry>) =
        layer.changed.iter().partition(|one| one.entry.kind == EntryKind::Dir);
    // The entries are sorted, so each directory precedes its contents. Keep directories writable
    // until all contents are written.
    for one in &folders {
        clear_path(handle, one).await?;
        create_folder(handle, one, one.entry.mode | 0o700).await?;
    }
    let mut writes = Vec::with_capacity(others.len());
    for one in others {
        writes.push(write_entry(handle, blobs, one));
    }
    let mut written = stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES);
    while let Some(one) = written.next().await {
        one?;
    }
    for one in folders.into_iter().rev() {
        create_folder(handle, one, one.entry.mode).await?;
    }
    Ok(())
}

/// Compares a restored state with the record. Extra entries in the restored state are ignored,
/// because only the restoration itself can have created them.
pub(crate) fn verify_restored(expected: &LayerDiff, restored: &LayerDiff) -> Result<(), Fault> {
    let differs = expected.changed.iter().find(|wanted| {
        let at = restored.changed.binary_search_by(|one| one.entry.path.cmp(&wanted.entry.path));
        at.ok().and_then(|at| restored.changed.get(at)).is_none_or(|one| one != *wanted)
    });
    match differs {
        None => Ok(()),
        Some(one) => Err(restore_fault(format!("/{} differs from the record", one.entry.path))),
    }
}

/// Returns the fault for a failed restoration. The trial starts over after this fault.
pub(crate) fn restore_fault(reason: impl std::fmt::Display) -> Fault {
    Fault::new(
        FaultLayer::Record,
        format!("cannot restore files outside the work directory: {reason}"),
    )
    .cause(FaultCause::Invalid)
    .hint("`proctor report RUN --verify` lists what is missing from the record")
}

fn to_absolute(path: &RawPath) -> RawPath {
    RawPath::from("/").join(path)
}

/// Returns a [`restore_fault`] if the sandbox rejected the entry, and a sandbox fault if the
/// sandbox is gone.
fn entry_fault(path: &RawPath, error: &SandboxError) -> Fault {
    match error.refusal_kind() {
        Some(_) => restore_fault(format!("/{path}: {error}")),
        None => error.to_fault(format!("restoring /{path}")),
    }
}

/// Removes whatever exists at an entry's path. Otherwise, an existing file would keep its owner,
/// and a file could not replace a directory. An existing directory is kept if the entry is a
/// directory.
async fn clear_path(handle: &SandboxHandle, layer_entry: &LayerEntry) -> Result<(), Fault> {
    let path = to_absolute(&layer_entry.entry.path);
    let found =
        handle.stat(&path).await.map_err(|error| entry_fault(&layer_entry.entry.path, &error))?;
    let both_folders =
        |kind: EntryKind| kind == EntryKind::Dir && layer_entry.entry.kind == EntryKind::Dir;
    if found.is_some_and(|found| !both_folders(found.kind)) {
        handle.remove(&path).await.map_err(|error| entry_fault(&layer_entry.entry.path, &error))?;
    }
    Ok(())
}

async fn create_folder(
    handle: &SandboxHandle,
    layer_entry: &LayerEntry,
    mode: u32,
) -> Result<(), Fault> {
    let (root, path, owner) =
        (RawPath::from("/"), to_absolute(&layer_entry.entry.path), owner_spec(layer_entry));
    let made = handle.create_folder_beneath(&root, &path, mode, Some(&owner)).await;
    made.map_err(|error| entry_fault(&layer_entry.entry.path, &error))
}

async fn write_entry(
    handle: &SandboxHandle,
    blobs: &Blobs,
    layer_entry: &LayerEntry,
) -> Result<(), Fault> {
    let entry = &layer_entry.entry;
    let (content, mode) = match (entry.kind, &entry.hash, &entry.link) {
        (EntryKind::Link, _, Some(target)) => (target.as_bytes().to_vec(), None),
        (EntryKind::File, Some(hash), _) => {
            (blobs.get(hash).map_err(restore_fault)?, Some(entry.mode))
        }
        _ => return Err(restore_fault(format!("the record does not contain /{}", entry.path))),
    };
    clear_path(handle, layer_entry).await?;
    let (root, path, owner) =
        (RawPath::from("/"), to_absolute(&entry.path), owner_spec(layer_entry));
    let put = handle.write_entry_beneath(&root, &path, &content, mode, Some(&owner)).await;
    put.map_err(|error| entry_fault(&entry.path, &error))
}

fn owner_spec(layer_entry: &LayerEntry) -> String {
    format!("{}:{}", layer_entry.uid, layer_entry.gid)
}

#[cfg(test)]
mod tests {
    use proctor_sandbox_api::wire::SnapshotEntry;

    use super::*;

    fn entry(path: &str, kind: EntryKind, uid: u32) -> LayerEntry {
        let hash = (kind == EntryKind::File).then(|| Blobs::hash(path.as_bytes()));
        let (path, size) = (RawPath::from(path), path.len() as u64);
        let entry = SnapshotEntry { path, kind, mode: 0o644, size, hash, link: None };
        LayerEntry { entry, uid, gid: 0 }
    }

    #[test]
    fn find_repositories_finds_git_folders_at_any_depth() {
        let mut tree = Tree::default();
        for (path, kind) in [
            (".git", EntryKind::Dir),
            ("sub/.git", EntryKind::Dir),
            ("sub/a.git", EntryKind::Dir),
            ("worktree/.git", EntryKind::File),
        ] {
            tree.entries.insert(path.into(), entry(path, kind, 0).entry);
        }
        let found = find_repositories(&"/testbed".into(), &tree);
        assert_eq!(found, ["/testbed/.git", "/testbed/sub/.git"].map(RawPath::from));
    }

    #[test]
    fn verify_restored_reports_the_differing_entry() {
        let file = |uid| entry("tmp/a", EntryKind::File, uid);
        let layer = |changed: Vec<LayerEntry>| LayerDiff { changed, removed: Vec::new() };
        let recorded = layer(vec![file(1)]);
        let more = layer(vec![entry("tmp", EntryKind::Dir, 0), file(1)]);
        assert!(verify_restored(&recorded, &more).is_ok());
        for other in [layer(vec![]), layer(vec![file(2)])] {
            let fault = verify_restored(&recorded, &other).unwrap_err();
            assert!(fault.what.contains("/tmp/a differs"), "{}", fault.what);
            assert_eq!((fault.layer, fault.cause), (FaultLayer::Record, FaultCause::Invalid));
        }
    }
}
