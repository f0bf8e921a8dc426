//! Records the guarded files before any of the model's files are in the sandbox.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use proctor_patch::{Change, CurrentFile, Patch, PatchError};
use proctor_sandbox_api::{
    SandboxHandle,
    wire::{DirEntry, EntryKind, RawPath},
};
use proctor_types::{Fault, FaultCause, FaultLayer, sha256_hex};

use crate::policy::Policy;

/// Maximum number of concurrent file reads.
const READ_CONCURRENCY: usize = 16;

/// All names in a pristine work directory, and the content of the files that may be restored.
#[derive(Debug, Default)]
pub(crate) struct PristineTree {
    /// The kind of each entry, by its relative, escaped path.
    pub entries: BTreeMap<String, EntryKind>,
    pub files: BTreeMap<String, CurrentFile>,
    /// Version control folders. Their content is not listed.
    pub history_folders: Vec<String>,
}

impl PristineTree {
    /// Lists all entries of the work directory.
    pub(crate) async fn walk(
        handle: &SandboxHandle,
        workdir: &str,
        policy: &Policy,
    ) -> Result<Self, Fault> {
        let mut names = BTreeMap::new();
        let mut histories = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let full = workdir_path(workdir, &folder);
            let entries = handle
                .list(&full)
                .await
                .map_err(|error| error.to_fault("listing the work directory"))?;
            for DirEntry { name, kind, .. } in entries {
                let name = name.to_escaped();
                let path =
                    if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                if policy.history_folders.contains(&name) {
                    histories.push(path);
                    continue;
                }
                if kind == EntryKind::Dir {
                    folders.push(path.clone());
                }
                names.insert(path, kind);
            }
            if names.len() > policy.limits.entries {
                let what = format!("{workdir} has more than {} entries", policy.limits.entries);
                return Err(Fault::new(FaultLayer::Grade, what));
            }
        }
        Ok(Self { entries: names, files: BTreeMap::new(), history_folders: histories })
    }

    /// Stores the content of every path that `should_store` selects.
    pub(crate) async fn store_files(
        &mut self,
        handle: &SandboxHandle,
        workdir: &str,
        should_store: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<(), Fault> {
        let kept: Vec<String> = self
            .entries
            .iter()
            .filter(|(path, kind)| {
                matches!(kind, EntryKind::File | EntryKind::Link) && should_store(path)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for (path, current) in read_entries(handle, workdir, kept).await? {
            if let Some(current) = current {
                self.files.insert(path, current);
            }
        }
        Ok(())
    }

    /// Applies the test patch to the stored files on the host. The sandbox gets these files only
    /// after the model's patch is applied.
    pub(crate) fn apply_test_patch(&mut self, test_patch: &[u8]) -> Result<(), Fault> {
        let current = |path: &RawPath| self.files.get(&path.to_escaped()).cloned();
        let changes = Patch::parse(test_patch).resolve(&current).map_err(|error| {
            Fault::new(FaultLayer::Setup, format!("the test patch does not apply: {error}"))
                .cause(FaultCause::Invalid)
        })?;
        for change in changes {
            match change {
                Change::Write { path, bytes, mode } => {
                    let path = path.to_escaped();
                    let before = match self.files.get(&path) {
                        Some(CurrentFile::File { mode, .. }) => *mode,
                        _ => 0o644,
                    };
                    let file = CurrentFile::File { bytes, mode: mode.unwrap_or(before) };
                    self.files.insert(path, file);
                }
                Change::Symlink { path, target } => {
                    self.files.insert(path.to_escaped(), CurrentFile::Link { target });
                }
                Change::Remove { path } => {
                    self.files.remove(&path.to_escaped());
                    self.entries.remove(&path.to_escaped());
                }
            }
        }
        Ok(())
    }
}

/// Returns `workdir/path` for an escaped path.
pub(crate) fn workdir_path(workdir: &str, path: &str) -> RawPath {
    let root = workdir.trim_end_matches('/');
    let mut full = RawPath::from(root);
    if !path.is_empty() {
        full.0.push(b'/');
        full.0.extend(RawPath::parse(path).unwrap_or_else(|| RawPath::from(path)).0);
    }
    full
}

/// Returns the current content of a file or link. Returns `None` for other kinds, which a patch
/// cannot create, and if nothing exists.
pub(crate) async fn read_entry(
    handle: &SandboxHandle,
    workdir: &str,
    path: &str,
) -> Result<Option<CurrentFile>, Fault> {
    let full = workdir_path(workdir, path);
    let limit = Policy::get()?.limits.file_bytes;
    let found = handle.stat(&full).await.map_err(|error| error.to_fault("checking a file"))?;
    let Some(found) = found else { return Ok(None) };
    match found.kind {
        EntryKind::File => {
            let bytes = handle
                .read(&full, limit)
                .await
                .map_err(|error| error.to_fault(format!("reading {path}")))?;
            Ok(Some(CurrentFile::File { bytes, mode: found.mode & 0o7777 }))
        }
        EntryKind::Link => Ok(found.link.map(|target| CurrentFile::Link { target })),
        EntryKind::Dir | EntryKind::Other => Ok(None),
    }
}

/// Identifies the expected content of a file.
#[derive(Debug, Clone)]
pub(crate) struct ContentHash {
    pub sha256: String,
}

impl ContentHash {
    pub(crate) fn compute(bytes: &[u8]) -> Self {
        Self { sha256: sha256_hex(bytes) }
    }
}

/// Returns the content of many paths, in order. Reads are concurrent, because sequential round
/// trips for a thousand small files take longer than running the tests.
pub(crate) async fn read_entries(
    handle: &SandboxHandle,
    workdir: &str,
    paths: Vec<String>,
) -> Result<Vec<(String, Option<CurrentFile>)>, Fault> {
    stream::iter(paths)
        .map(async |path| {
            let current = read_entry(handle, workdir, &path).await?;
            Ok((path, current))
        })
        .buffered(READ_CONCURRENCY)
        .try_collect()
        .await
}

/// Returns the paths in a patch, including both paths of a rename.
pub(crate) fn patch_paths(patch: &[u8]) -> Result<BTreeSet<String>, PatchError> {
    Ok(Patch::parse(patch).touched_paths()?.iter().map(RawPath::to_escaped).collect())
}
