//! Prepares and inspects a sandbox's work directory from the host, which is trusted.

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{RawPath, SnapshotRequest},
};
use proctor_types::{Fault, FaultLayer, OnFinding, Task};

use crate::{
    HiddenCopies, from_scratch,
    hidden_content::{ContentToKeep, remove_hidden_content},
    leak_check::{LayerFindings, LeakReport, verify_sandbox},
};

/// Maximum size in bytes of a file whose content is part of a snapshot. Larger files are only
/// listed.
pub const SNAPSHOT_FILE_LIMIT: u64 = 64 << 20;

/// Maximum number of entries to visit in a work directory.
pub const SNAPSHOT_ENTRY_LIMIT: u64 = 250_000;

/// Maximum number of content bytes that one step may add to the record. Small files are recorded
/// even if the limit is exceeded.
pub const SNAPSHOT_CONTENT_LIMIT: u64 = 256 << 20;

/// Returns the snapshot request for a task's work directory. The first snapshot captures
/// everything, because a fresh work directory contains the task's own source.
pub fn snapshot_request(workdir: &RawPath, is_fresh: bool) -> SnapshotRequest {
    SnapshotRequest {
        root: workdir.clone(),
        fresh: is_fresh,
        skip: vec![RawPath::from(".git")],
        file_limit: SNAPSHOT_FILE_LIMIT,
        entry_limit: SNAPSHOT_ENTRY_LIMIT,
        content_limit: if is_fresh { 0 } else { SNAPSHOT_CONTENT_LIMIT },
    }
}

/// Prepares the work directory for an agent. Then scans the sandbox, and rejects it if hidden
/// content remains. `findings` contains the environment's findings, and `hidden_copies` the copies
/// that were hidden when the sandbox was opened. `on_finding` determines how findings are handled.
///
/// # Errors
/// Every error is an infrastructure fault, so it never scores the trial as zero.
pub async fn prepare_for_agent(
    handle: &SandboxHandle,
    task: &Task,
    findings: &LayerFindings,
    hidden_copies: &HiddenCopies,
    on_finding: OnFinding,
) -> Result<LeakReport, Fault> {
    // A Harbor image is part of the task, so files that the author left in the image stay, such as
    // a Git history. The image contains neither the solution nor the tests.
    if task.harbor.is_some() {
        return Ok(LeakReport::default());
    }
    let workdir = RawPath::from(task.workdir.as_str());
    if let Some(start) = &task.from_scratch {
        from_scratch::reset_workdir(handle, &workdir, start).await?;
    }
    // Don't remove leaks here. The scan below finds them, and the policy decides whether they may
    // be removed.
    let known = hidden_copies.without_leaks();
    remove_hidden_content(handle, task, &known, ContentToKeep::default()).await?;
    check_hidden_removed(handle, task, &workdir).await?;
    verify_sandbox(handle, task, findings, hidden_copies, on_finding).await
}

async fn check_hidden_removed(
    handle: &SandboxHandle,
    task: &Task,
    workdir: &RawPath,
) -> Result<(), Fault> {
    for hidden in &task.hidden {
        let path = workdir.join(&RawPath::from(hidden.as_str()));
        let found =
            handle.stat(&path).await.map_err(|error| error.to_fault("verifying the leak check"))?;
        if found.is_some() {
            let what = format!("hidden path {hidden} still exists");
            return Err(Fault::new(FaultLayer::Setup, what).context(&task.id));
        }
    }
    Ok(())
}
