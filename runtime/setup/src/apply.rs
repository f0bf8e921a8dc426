//! Applies a patch to a sandbox's work directory from the host.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::{Change, CurrentFile, Patch, PatchError, ResolvedPatch};
use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{EntryKind, RawPath, RefusalKind},
};
use proctor_types::{Fault, FaultCause, FaultLayer, Task};

/// Maximum size in bytes of a file to patch.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Why a patch was not applied: either the patch is invalid or the sandbox failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The patch is invalid. This counts as the patch's result and is not retried.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The sandbox failed. This failure does not count against the patch.
    #[error(transparent)]
    Sandbox(SandboxError),
}

/// The result of applying a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedPatch {
    /// The changed paths.
    pub changed_paths: Vec<RawPath>,
    /// The parts of the patch that were skipped or interpreted differently, as one sentence each.
    pub deviations: Vec<String>,
}

/// Applies `patch` to `workdir` and returns the changed paths. The whole patch is resolved before
/// the first byte is written, so a patch that does not apply changes nothing.
///
/// Deletions come before additions. Otherwise, an addition could turn a directory into a link, and
/// a later deletion below it would delete the link's target. If a file replaces a directory, the
/// whole directory is removed, including files that interpreters left in it. New files belong to
/// `owner`, or to root if `owner` is `None`.
pub async fn apply_patch(
    handle: &SandboxHandle,
    workdir: &RawPath,
    patch: &[u8],
    owner: Option<&str>,
) -> Result<Vec<RawPath>, ApplyError> {
    let resolve: ResolvePatch = |patch, current| {
        let changes = patch.resolve(current)?;
        Ok(ResolvedPatch { changes, skipped_parts: Vec::new() })
    };
    Ok(apply_changes(handle, workdir, patch, owner, resolve).await?.changed_paths)
}

/// Like [`apply_patch`], but for graded patches: accepts every deviation that Git and benchmark
/// harnesses accept ([`Patch::resolve_lenient`]).
pub async fn apply_graded_patch(
    handle: &SandboxHandle,
    workdir: &RawPath,
    patch: &[u8],
    owner: Option<&str>,
) -> Result<AppliedPatch, ApplyError> {
    apply_changes(handle, workdir, patch, owner, |patch, current| patch.resolve_lenient(current))
        .await
}

type ResolvePatch =
    fn(&Patch, &dyn Fn(&RawPath) -> Option<CurrentFile>) -> Result<ResolvedPatch, PatchError>;

async fn apply_changes(
    handle: &SandboxHandle,
    workdir: &RawPath,
    patch: &[u8],
    owner: Option<&str>,
    resolve: ResolvePatch,
) -> Result<AppliedPatch, ApplyError> {
    let (mut current, mut in_the_way) = (BTreeMap::new(), BTreeSet::new());
    let patch = Patch::parse(patch);
    for path in patch.touched_paths()? {
        match read_existing_entry(handle, &workdir.join(&path)).await? {
            ExistingEntry::Missing => {}
            ExistingEntry::Unsupported => drop(in_the_way.insert(path)),
            ExistingEntry::Patchable(found) => {
                if matches!(found, CurrentFile::Link { .. }) {
                    in_the_way.insert(path.clone());
                }
                current.insert(path, found);
            }
        }
    }
    let ResolvedPatch { mut changes, skipped_parts: left_out } =
        resolve(&patch, &|path| current.get(path).cloned())?;
    changes.sort_by_key(|change| !matches!(change, Change::Remove { .. }));
    let mut changed = Vec::with_capacity(changes.len());
    for change in changes {
        let (path, done) = match change {
            Change::Write { path, bytes, mode } => {
                let full = workdir.join(&path);
                // Replace a link at this path instead of following it.
                let free = match in_the_way.contains(&path) {
                    true => handle.remove_beneath(workdir, &full).await,
                    false => Ok(()),
                };
                let done = match free {
                    Ok(()) => {
                        let mode = mode.or(Some(0o644));
                        handle.write_entry_beneath(workdir, &full, &bytes, mode, owner).await
                    }
                    Err(error) => Err(error),
                };
                (path, done)
            }
            Change::Symlink { path, target } => {
                let full = workdir.join(&path);
                let done = match handle.remove_beneath(workdir, &full).await {
                    Ok(()) => {
                        handle
                            .write_entry_beneath(workdir, &full, target.as_bytes(), None, owner)
                            .await
                    }
                    Err(error) => Err(error),
                };
                (path, done)
            }
            Change::Remove { path } => {
                let done = handle.remove_beneath(workdir, &workdir.join(&path)).await;
                (path, done)
            }
        };
        match done {
            Ok(()) => changed.push(path),
            Err(SandboxError::Refused(refusal)) if refusal.why != RefusalKind::Io => {
                return Err(PatchError::Refused { path, why: refusal.what }.into());
            }
            Err(error) => return Err(ApplyError::Sandbox(error)),
        }
    }
    Ok(AppliedPatch { changed_paths: changed, deviations: left_out })
}

/// Applies the task's mask, which removes the feature from the source in a sandbox. Does nothing
/// for a task without a mask.
///
/// # Errors
/// Returns a setup fault if the mask does not apply, or a sandbox fault if the sandbox fails.
pub async fn apply_mask(handle: &SandboxHandle, task: &Task) -> Result<(), Fault> {
    let Some(mask) = task.mask.as_deref().filter(|mask| !mask.trim().is_empty()) else {
        return Ok(());
    };
    let workdir = RawPath::from(task.workdir.as_str());
    let applied = apply_patch(handle, &workdir, mask.as_bytes(), task.user.as_deref()).await;
    applied.map(drop).map_err(|error| match error {
        ApplyError::Patch(error) => {
            Fault::new(FaultLayer::Setup, format!("the mask does not apply: {error}"))
                .cause(FaultCause::Invalid)
                .context(&task.id)
                .hint("the mask must fit the source exactly; run `proctor tasks validate`")
        }
        ApplyError::Sandbox(error) => error.to_fault("applying the mask"),
    })
}

/// The entry at a path before the patch.
enum ExistingEntry {
    Missing,
    /// A directory, or another entry that is neither a file nor a link. Patches cannot represent
    /// such entries.
    Unsupported,
    Patchable(CurrentFile),
}

async fn read_existing_entry(
    handle: &SandboxHandle,
    path: &RawPath,
) -> Result<ExistingEntry, ApplyError> {
    let Some(found) = handle.stat(path).await.map_err(ApplyError::Sandbox)? else {
        return Ok(ExistingEntry::Missing);
    };
    Ok(match found.kind {
        EntryKind::Link => found.link.map_or(ExistingEntry::Missing, |target| {
            ExistingEntry::Patchable(CurrentFile::Link { target })
        }),
        EntryKind::File => {
            let bytes = handle.read(path, MAX_FILE_BYTES).await.map_err(ApplyError::Sandbox)?;
            ExistingEntry::Patchable(CurrentFile::File { bytes, mode: found.mode })
        }
        EntryKind::Dir | EntryKind::Other => ExistingEntry::Unsupported,
    })
}
