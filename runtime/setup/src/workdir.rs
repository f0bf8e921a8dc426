//! Prepares and inspects the work directory of a sandbox from the trusted side.

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{EntryKind, RawPath, SnapshotRequest},
};
use proctor_types::{Fault, Layer, OnFinding, Task};

use crate::{
    HiddenCopies, apply_mask, from_scratch,
    leak_check::{LayerFindings, LeakPolicy, LeakReport, verify},
};

/// A snapshot lists files larger than this many bytes without their content.
pub const SNAPSHOT_FILE_LIMIT: u64 = 64 << 20;

/// Maximum number of entries to visit in a work directory.
pub const SNAPSHOT_ENTRY_LIMIT: u64 = 250_000;

/// Bytes of content that one step may add to the record. Small files are recorded even above this
/// limit.
pub const SNAPSHOT_CONTENT_LIMIT: u64 = 256 << 20;

/// Returns the snapshot request for a task's work directory. The first snapshot captures
/// everything, because a fresh work directory contains the task's own source.
pub fn snapshot_request(workdir: &RawPath, fresh: bool) -> SnapshotRequest {
    SnapshotRequest {
        root: workdir.clone(),
        fresh,
        skip: vec![RawPath::from(".git")],
        file_limit: SNAPSHOT_FILE_LIMIT,
        entry_limit: SNAPSHOT_ENTRY_LIMIT,
        content_limit: if fresh { 0 } else { SNAPSHOT_CONTENT_LIMIT },
    }
}

/// Hidden content that is not removed from a work directory. Normally there is none, but a
/// benchmark's own procedure may need some of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptContent {
    /// The files that the task declares as hidden.
    pub hidden_files: bool,
    /// Repositories. The procedure's commands query them.
    pub history: bool,
}

/// Removes a task's hidden content: applies the mask, and removes hidden paths, history, caches,
/// bytecode and the copies that the leak check found. This is the same for the agent and for the
/// code under test.
///
/// # Errors
/// A setup fault if the mask does not apply, or a sandbox fault if the sandbox fails.
pub async fn remove_hidden_content(
    handle: &SandboxHandle,
    task: &Task,
    hidden: &HiddenCopies,
    stays: KeptContent,
) -> Result<(), Fault> {
    let workdir = RawPath::from(task.workdir.as_str());
    apply_mask(handle, task).await?;
    if !stays.hidden_files {
        for path in &task.hidden {
            let full = workdir.join(&RawPath::from(path.as_str()));
            handle.remove(&full).await.map_err(|error| error.fault(format!("hiding {path}")))?;
        }
    }
    for path in hidden.workdir_paths() {
        if stays.history && LeakPolicy::get()?.is_history(path) {
            continue;
        }
        handle.remove(path).await.map_err(|error| error.fault(format!("removing {path}")))?;
    }
    Ok(())
}

/// Prepares the work directory for an agent. Then scans the whole sandbox and rejects it if it
/// finds hidden content. `layer` contains the environment's findings, and `hidden` those that were
/// hidden when the sandbox was opened. `on_finding` says how to handle findings.
///
/// # Errors
/// Every error here is a setup fault, so it never scores the trial as zero.
pub async fn prepare_for_agent(
    handle: &SandboxHandle,
    task: &Task,
    layer: &LayerFindings,
    hidden: &HiddenCopies,
    on_finding: OnFinding,
) -> Result<LeakReport, Fault> {
    // A Harbor image is part of the task, so files that its author left in it stay, such as a Git
    // history. The image never contained the solution or the tests.
    if task.harbor.is_some() {
        return Ok(LeakReport::default());
    }
    let workdir = RawPath::from(task.workdir.as_str());
    if let Some(start) = &task.from_scratch {
        from_scratch::reset_workdir(handle, &workdir, start).await?;
    }
    // Leave these copies for the scan below, because the policy decides whether they may be
    // removed.
    let known = hidden.without_leaks();
    remove_hidden_content(handle, task, &known, KeptContent::default()).await?;
    check_hidden_removed(handle, task, &workdir).await?;
    verify(handle, task, layer, hidden, on_finding).await
}

/// Returns copies of the masked code in a work directory that are recognized by name: history,
/// caches and bytecode. An interpreter in the work directory is skipped, because the tests need it.
pub(crate) async fn find_copies(
    handle: &SandboxHandle,
    task: &Task,
) -> Result<Vec<RawPath>, Fault> {
    let policy = LeakPolicy::get()?;
    let workdir = RawPath::from(task.workdir.as_str());
    let interpreter = interpreter(task);
    let (mut found, mut folders) = (Vec::new(), vec![workdir]);
    while let Some(folder) = folders.pop() {
        let entries = handle
            .list(&folder)
            .await
            .map_err(|error| error.fault("listing the work directory"))?;
        for entry in entries {
            let path = folder.join(&entry.name);
            if interpreter.as_ref() == Some(&path) {
                continue;
            }
            let holds_it = interpreter.as_ref().is_some_and(|inner| {
                let below = inner.as_bytes().strip_prefix(path.as_bytes());
                below.is_some_and(|rest| rest.starts_with(b"/"))
            });
            if policy.is_copy(&entry.name) && !holds_it {
                found.push(path);
            } else if entry.kind == EntryKind::Dir {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the directory of an interpreter in the work directory: `WORKDIR/.venv` for
/// `.venv/bin/python`.
fn interpreter(task: &Task) -> Option<RawPath> {
    let program = task.test_command.first()?;
    let root = task.workdir.trim_end_matches('/');
    let inner = match program.strip_prefix('/') {
        Some(_) => program.strip_prefix(root)?.strip_prefix('/')?,
        None => program.trim_start_matches("./"),
    };
    let (folder, _) = inner.rsplit_once('/')?;
    let prefix = folder.rsplit_once('/').map_or("", |(prefix, _)| prefix);
    let is_plain = !prefix.is_empty() && prefix.split('/').all(|part| part != "..");
    is_plain.then(|| RawPath::from(format!("{root}/{prefix}")))
}

async fn check_hidden_removed(
    handle: &SandboxHandle,
    task: &Task,
    workdir: &RawPath,
) -> Result<(), Fault> {
    for hidden in &task.hidden {
        let path = workdir.join(&RawPath::from(hidden.as_str()));
        let found =
            handle.stat(&path).await.map_err(|error| error.fault("verifying the leak check"))?;
        if found.is_some() {
            let what = format!("hidden path {hidden} still exists");
            return Err(Fault::new(Layer::Setup, what).context(&task.id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreter_in_the_work_directory_is_found_from_the_test_command() {
        let of = |program: &str| {
            let task: Task = serde_json::from_value(serde_json::json!({
                "schema_version": 1, "id": "t", "statement": "", "environment": {},
                "fail_to_pass": [], "test_command": [program]
            }))
            .unwrap();
            interpreter(&task).map(|path| path.to_string())
        };
        assert_eq!(of("/testbed/.venv/bin/python"), Some("/testbed/.venv".into()));
        assert_eq!(of(".tox/py311/bin/pytest"), Some("/testbed/.tox/py311".into()));
        for elsewhere in ["/venv/bin/python", "python", "/testbed/run", "../x/bin/python"] {
            assert_eq!(of(elsewhere), None, "{elsewhere}");
        }
    }
}
