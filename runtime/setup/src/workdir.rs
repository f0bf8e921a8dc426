//! Prepares a work directory for driving, on the trusted side.

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{EntryKind, RawPath, SnapshotRequest},
};
use proctor_types::{Fault, Layer, OnFinding, Task};

use crate::{
    ApplyError,
    apply::join,
    apply_patch, from_scratch,
    leak_check::{LayerFindings, LeakPolicy, LeakReport, verify},
};

/// Files larger than this are listed in a snapshot without their content, in bytes.
pub const SNAPSHOT_FILE_LIMIT: u64 = 64 << 20;

/// A work directory of more entries than this is refused.
pub const SNAPSHOT_ENTRY_LIMIT: u64 = 500_000;

/// The snapshot request for a task's work directory.
pub fn snapshot_request(workdir: &RawPath, fresh: bool) -> SnapshotRequest {
    SnapshotRequest {
        root: workdir.clone(),
        fresh,
        skip: vec![RawPath::from(".git")],
        file_limit: SNAPSHOT_FILE_LIMIT,
        entry_limit: SNAPSHOT_ENTRY_LIMIT,
    }
}

/// Takes the feature away: mask applied, hidden paths, copies, caches and history removed; then
/// looks again, in the whole sandbox, and refuses to set up what is not checked for leaks. `layer` is what the
/// environment was found to hold, `on_finding` what happens to findings.
///
/// # Errors
/// Everything that goes wrong here is an infrastructure fault of setup, never a zero.
pub async fn prepare_for_driving(
    handle: &SandboxHandle,
    task: &Task,
    layer: &LayerFindings,
    on_finding: OnFinding,
) -> Result<LeakReport, Fault> {
    let workdir = RawPath::from(task.workdir.as_str());
    if let Some(start) = &task.from_scratch {
        from_scratch::empty(handle, &workdir, start).await?;
    }
    if let Some(mask) = &task.mask {
        apply_patch(handle, &workdir, mask.as_bytes()).await.map_err(|error| match error {
            ApplyError::Patch(error) => {
                setup_fault(task, format!("the mask does not apply: {error}"))
                    .hint("the mask must fit the source exactly; run `proctor tasks validate`")
            }
            ApplyError::SandboxHandle(error) => error.fault("applying the mask"),
        })?;
    }
    for hidden in &task.hidden {
        let path = join(&workdir, &RawPath::from(hidden.as_str()));
        handle.remove(&path).await.map_err(|error| error.fault(format!("hiding {hidden}")))?;
    }
    remove_copies(handle, &workdir).await?;
    hidden_are_gone(handle, task, &workdir).await?;
    verify(handle, task, layer, on_finding).await
}

async fn remove_copies(handle: &SandboxHandle, workdir: &RawPath) -> Result<(), Fault> {
    let policy = LeakPolicy::get()?;
    let mut folders = vec![workdir.clone()];
    while let Some(folder) = folders.pop() {
        let entries = handle.list(&folder).await.map_err(|error| error.fault("listing setup"))?;
        for entry in entries {
            let path = join(&folder, &entry.name);
            let name = entry.name.as_bytes();
            let is_copy = policy.copies.iter().any(|copy| name == copy.as_bytes())
                || policy.copy_suffixes.iter().any(|end| name.ends_with(end.as_bytes()));
            if is_copy {
                handle.remove(&path).await.map_err(|error| error.fault("removing copies"))?;
            } else if entry.kind == EntryKind::Dir {
                folders.push(path);
            }
        }
    }
    Ok(())
}

async fn hidden_are_gone(
    handle: &SandboxHandle,
    task: &Task,
    workdir: &RawPath,
) -> Result<(), Fault> {
    for hidden in &task.hidden {
        let path = join(workdir, &RawPath::from(hidden.as_str()));
        let found =
            handle.stat(&path).await.map_err(|error| error.fault("verifying the leak check"))?;
        if found.is_some() {
            return Err(setup_fault(task, format!("hidden path {hidden} is still there")));
        }
    }
    Ok(())
}

fn setup_fault(task: &Task, what: String) -> Fault {
    Fault::new(Layer::Setup, what).context(&task.id)
}
