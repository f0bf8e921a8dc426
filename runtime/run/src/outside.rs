//! Captures the state of a sandbox outside its work directory after a step, and restores it.

use futures_util::{StreamExt, stream};
use proctor_record::{Blobs, RecordError, Tree};
use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{EntryKind, Layer, LayerEntry, LayerRequest, RawPath},
};
use proctor_types::{Cause, Fault, Layer as FaultLayer};

/// Concurrent file writes. Each is a round trip, which is mostly waiting.
const AT_ONCE: usize = 16;

/// Number of entries outside the work directory that a trial may write and still be resumed.
const ENTRIES: u64 = 100_000;

/// Limits on the state outside the work directory that is kept per trial. A trial that exceeds them
/// restarts if it is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideLimits {
    /// Per file, in bytes.
    pub file_bytes: u64,
    /// All files together, in bytes.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

impl Default for OutsideLimits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, bytes: 256 << 20, entries: ENTRIES }
    }
}

impl OutsideLimits {
    /// The larger value of each limit.
    #[must_use]
    pub(crate) fn at_least(self, other: Self) -> Self {
        Self {
            file_bytes: self.file_bytes.max(other.file_bytes),
            bytes: self.bytes.max(other.bytes),
            entries: self.entries.max(other.entries),
        }
    }

    /// The request for the state outside `workdir`, which holds `tree`.
    pub(crate) fn request(&self, workdir: &RawPath, tree: &Tree, fresh: bool) -> LayerRequest {
        LayerRequest {
            fresh,
            workdir: workdir.clone(),
            repositories: repositories(workdir, tree),
            listed: false,
            file_limit: self.file_bytes,
            content_limit: self.bytes,
            entry_limit: self.entries,
            files_alone: false,
        }
    }
}

/// Directories in a work directory that its snapshots list but do not walk.
fn repositories(workdir: &RawPath, tree: &Tree) -> Vec<RawPath> {
    let is_repository = |path: &[u8]| path == b".git" || path.ends_with(b"/.git");
    let folders = tree.entries.values().filter(|entry| entry.kind == EntryKind::Dir);
    let found = folders.filter(|entry| is_repository(entry.path.as_bytes()));
    found.map(|entry| workdir.join(&entry.path)).collect()
}

/// Reads a recorded state.
pub(crate) fn load(blobs: &Blobs, digest: &str) -> Result<Layer, RecordError> {
    let bytes = blobs.get(digest)?;
    serde_json::from_slice(&bytes).map_err(|error| RecordError::Corrupt {
        path: blobs.root().to_owned(),
        why: format!("{digest}: invalid sandbox state: {error}"),
        hint: "restore it from a copy of the run",
    })
}

/// Reads every blob of a state, so that a trial with an incomplete record is not started.
pub(crate) fn check(blobs: &Blobs, digest: &str) -> Result<(), RecordError> {
    let layer = load(blobs, digest)?;
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
/// A blob is lost, or the sandbox rejects an entry. The trial has to restart.
pub(crate) async fn restore(
    handle: &SandboxHandle,
    blobs: &Blobs,
    layer: &Layer,
) -> Result<(), Fault> {
    for path in &layer.removed {
        let removed = handle.remove(&absolute(path)).await;
        removed.map_err(|error| refused(path, &error))?;
    }
    let (folders, others): (Vec<&LayerEntry>, Vec<&LayerEntry>) =
        layer.changed.iter().partition(|one| one.entry.kind == EntryKind::Dir);
    // Sorted order puts a directory before its content. Keep it writable until everything is in
    // place.
    for one in &folders {
        make_way(handle, one).await?;
        folder(handle, one, one.entry.mode | 0o700).await?;
    }
    let mut writes = Vec::with_capacity(others.len());
    for one in others {
        writes.push(write(handle, blobs, one));
    }
    let mut written = stream::iter(writes).buffer_unordered(AT_ONCE);
    while let Some(one) = written.next().await {
        one?;
    }
    for one in folders.into_iter().rev() {
        folder(handle, one, one.entry.mode).await?;
    }
    Ok(())
}

/// Compares a restored state with the record. Extra entries are no difference, because only the
/// restoration ran in the sandbox.
pub(crate) fn verify(recorded: &Layer, found: &Layer) -> Result<(), Fault> {
    let differs = recorded.changed.iter().find(|wanted| {
        let at = found.changed.binary_search_by(|one| one.entry.path.cmp(&wanted.entry.path));
        at.ok().and_then(|at| found.changed.get(at)).is_none_or(|one| one != *wanted)
    });
    match differs {
        None => Ok(()),
        Some(one) => Err(lost(format!("/{} differs from the record", one.entry.path))),
    }
}

/// A fault after which the trial restarts.
pub(crate) fn lost(why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultLayer::Record, format!("restoring files outside the work directory: {why}"))
        .cause(Cause::Invalid)
        .hint("`proctor report RUN --verify` lists what is missing in the record")
}

fn absolute(path: &RawPath) -> RawPath {
    RawPath::from("/").join(path)
}

/// An entry that the sandbox rejects cannot be restored; a sandbox that is gone is a different
/// fault.
fn refused(path: &RawPath, error: &SandboxError) -> Fault {
    match error.refusal() {
        Some(_) => lost(format!("/{path}: {error}")),
        None => error.fault(format!("restoring /{path}")),
    }
}

/// Removes whatever occupies an entry's place: an existing file would keep its owner, and a
/// directory cannot be replaced with a file. A directory stays where a directory belongs.
async fn make_way(handle: &SandboxHandle, one: &LayerEntry) -> Result<(), Fault> {
    let path = absolute(&one.entry.path);
    let found = handle.stat(&path).await.map_err(|error| refused(&one.entry.path, &error))?;
    let both_folders = |kind: EntryKind| kind == EntryKind::Dir && one.entry.kind == EntryKind::Dir;
    if found.is_some_and(|found| !both_folders(found.kind)) {
        handle.remove(&path).await.map_err(|error| refused(&one.entry.path, &error))?;
    }
    Ok(())
}

async fn folder(handle: &SandboxHandle, one: &LayerEntry, mode: u32) -> Result<(), Fault> {
    let (root, path, owner) = (RawPath::from("/"), absolute(&one.entry.path), owner(one));
    let made = handle.folder_beneath(&root, &path, mode, Some(&owner)).await;
    made.map_err(|error| refused(&one.entry.path, &error))
}

async fn write(handle: &SandboxHandle, blobs: &Blobs, one: &LayerEntry) -> Result<(), Fault> {
    let entry = &one.entry;
    let (content, mode) = match (entry.kind, &entry.hash, &entry.link) {
        (EntryKind::Link, _, Some(target)) => (target.as_bytes().to_vec(), None),
        (EntryKind::File, Some(hash), _) => (blobs.get(hash).map_err(lost)?, Some(entry.mode)),
        _ => return Err(lost(format!("the record does not contain /{}", entry.path))),
    };
    make_way(handle, one).await?;
    let (root, path, owner) = (RawPath::from("/"), absolute(&entry.path), owner(one));
    let put = handle.put_beneath(&root, &path, &content, mode, Some(&owner)).await;
    put.map_err(|error| refused(&entry.path, &error))
}

fn owner(one: &LayerEntry) -> String {
    format!("{}:{}", one.uid, one.gid)
}

#[cfg(test)]
mod tests {
    use proctor_sandbox_api::wire::SnapEntry;

    use super::*;

    fn entry(path: &str, kind: EntryKind, uid: u32) -> LayerEntry {
        let hash = (kind == EntryKind::File).then(|| Blobs::hash(path.as_bytes()));
        let (path, size) = (RawPath::from(path), path.len() as u64);
        let entry = SnapEntry { path, kind, mode: 0o644, size, hash, link: None };
        LayerEntry { entry, uid, gid: 0 }
    }

    #[test]
    fn repositories_of_the_work_directory_are_found_at_any_depth() {
        let mut tree = Tree::default();
        for (path, kind) in [
            (".git", EntryKind::Dir),
            ("sub/.git", EntryKind::Dir),
            ("sub/a.git", EntryKind::Dir),
            ("worktree/.git", EntryKind::File),
        ] {
            tree.entries.insert(path.into(), entry(path, kind, 0).entry);
        }
        let found = repositories(&"/testbed".into(), &tree);
        assert_eq!(found, ["/testbed/.git", "/testbed/sub/.git"].map(RawPath::from));
    }

    #[test]
    fn verify_names_the_entry_that_differs() {
        let file = |uid| entry("tmp/a", EntryKind::File, uid);
        let layer = |changed: Vec<LayerEntry>| Layer { changed, removed: Vec::new() };
        let recorded = layer(vec![file(1)]);
        let more = layer(vec![entry("tmp", EntryKind::Dir, 0), file(1)]);
        assert!(verify(&recorded, &more).is_ok());
        for other in [layer(vec![]), layer(vec![file(2)])] {
            let fault = verify(&recorded, &other).unwrap_err();
            assert!(fault.what.contains("/tmp/a differs"), "{}", fault.what);
            assert_eq!((fault.layer, fault.cause), (FaultLayer::Record, Cause::Invalid));
        }
    }
}
