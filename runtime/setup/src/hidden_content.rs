//! Finds and removes a task's hidden content in the work directory.

use proctor_sandbox_api::{
    SandboxHandle,
    wire::{EntryKind, RawPath},
};
use proctor_types::{Fault, Task};

use crate::{apply_mask, hidden_copies::HiddenCopies, leak_check::LeakPolicy};

/// Hidden content that is not removed from a work directory. Normally everything is removed, but a
/// benchmark's own procedure may need some of the content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentToKeep {
    /// Whether to keep the files that the task declares as hidden.
    pub keeps_hidden_files: bool,
    /// Whether to keep repositories, which the procedure's commands query.
    pub keeps_history: bool,
}

/// Removes a task's hidden content: applies the mask, and removes hidden paths, history, caches,
/// bytecode and the copies that the leak check found. The same content is removed for the agent and
/// for the code under test.
///
/// # Errors
/// Returns a setup fault if the mask does not apply, or a sandbox fault if the sandbox fails.
pub async fn remove_hidden_content(
    handle: &SandboxHandle,
    task: &Task,
    hidden_copies: &HiddenCopies,
    content_to_keep: ContentToKeep,
) -> Result<(), Fault> {
    let workdir = RawPath::from(task.workdir.as_str());
    apply_mask(handle, task).await?;
    if !content_to_keep.keeps_hidden_files {
        for path in &task.hidden {
            let full = workdir.join(&RawPath::from(path.as_str()));
            handle.remove(&full).await.map_err(|error| error.to_fault(format!("hiding {path}")))?;
        }
    }
    for path in hidden_copies.workdir_paths() {
        if content_to_keep.keeps_history && LeakPolicy::get()?.is_history(path) {
            continue;
        }
        handle.remove(path).await.map_err(|error| error.to_fault(format!("removing {path}")))?;
    }
    Ok(())
}

/// Returns copies of the masked code in a work directory that are recognized by name: history,
/// caches and bytecode. An interpreter in the work directory is skipped, because the tests need it.
pub(crate) async fn find_named_copies(
    handle: &SandboxHandle,
    task: &Task,
) -> Result<Vec<RawPath>, Fault> {
    let policy = LeakPolicy::get()?;
    let workdir = RawPath::from(task.workdir.as_str());
    let interpreter = workdir_interpreter(task);
    let (mut found, mut folders) = (Vec::new(), vec![workdir]);
    while let Some(folder) = folders.pop() {
        let entries = handle
            .list(&folder)
            .await
            .map_err(|error| error.to_fault("listing the work directory"))?;
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
fn workdir_interpreter(task: &Task) -> Option<RawPath> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workdir_interpreter_is_found_in_the_test_command() {
        let of = |program: &str| {
            let task: Task = serde_json::from_value(serde_json::json!({
                "schema_version": 1, "id": "t", "statement": "", "environment": {},
                "fail_to_pass": [], "test_command": [program]
            }))
            .unwrap();
            workdir_interpreter(&task).map(|path| path.to_string())
        };
        assert_eq!(of("/testbed/.venv/bin/python"), Some("/testbed/.venv".into()));
        assert_eq!(of(".tox/py311/bin/pytest"), Some("/testbed/.tox/py311".into()));
        for elsewhere in ["/venv/bin/python", "python", "/testbed/run", "../x/bin/python"] {
            assert_eq!(of(elsewhere), None, "{elsewhere}");
        }
    }
}
