//! Copies the files of a Harbor task directory into a sandbox.

use proctor_harbor::{InputEntry, InputKind};
use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{EntryKind, RawPath},
};

/// The log directory of a Harbor sandbox.
pub const LOG_DIR: &str = "/logs";

/// Copies the files of `tests/` or `solution/` to an absolute path, as root, and makes the script
/// executable. If `clear_target` is set, existing content at that path is removed first.
///
/// # Errors
/// Fails if the sandbox rejects an entry or is gone.
pub async fn copy_inputs(
    handle: &SandboxHandle,
    target_dir: &str,
    inputs: &[InputEntry],
    script: &str,
    clear_target: bool,
) -> Result<(), SandboxError> {
    let (root, top) = (RawPath::from("/"), RawPath::from(target_dir));
    if clear_target {
        handle.remove(&top).await?;
    }
    handle.create_folder_beneath(&root, &top, 0o755, None).await?;
    for input in inputs {
        let path = top.join(&RawPath::from(input.path.as_str()));
        match &input.kind {
            InputKind::Folder => {
                handle.create_folder_beneath(&top, &path, input.mode | 0o700, None).await?;
            }
            InputKind::File(bytes) => {
                let executable = if input.path == script { 0o111 } else { 0 };
                let mode = Some(input.mode | executable);
                handle.write_entry_beneath(&top, &path, bytes, mode, None).await?;
            }
            InputKind::Link(target) => {
                handle.write_entry_beneath(&top, &path, target.as_bytes(), None, None).await?;
            }
        }
    }
    Ok(())
}

/// Creates log directories that all users can write to, as in Harbor's containers.
///
/// # Errors
/// Fails if the sandbox rejects a directory or is gone.
pub async fn create_log_dirs(handle: &SandboxHandle, names: &[&str]) -> Result<(), SandboxError> {
    let (root, logs) = (RawPath::from("/"), RawPath::from(LOG_DIR));
    let found = handle.stat(&logs).await?;
    if found.as_ref().is_some_and(|found| found.kind != EntryKind::Dir) {
        handle.remove(&logs).await?;
    }
    if found.is_none_or(|found| found.kind != EntryKind::Dir) {
        handle.create_folder_beneath(&root, &logs, 0o777, None).await?;
    }
    for name in names {
        let path = logs.join(&RawPath::from(*name));
        handle.create_folder_beneath(&root, &path, 0o777, None).await?;
    }
    Ok(())
}
