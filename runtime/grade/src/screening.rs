//! Screens a patch before it is applied, while the sandbox still contains the patch's base.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::{CurrentFile, gold_patch};
use proctor_sandbox_api::{SandboxHandle, wire::EntryKind};
use proctor_screening::{PatchChanges, ScreeningInput, own_packages, screen};
use proctor_types::{Evidence, Fault, FaultLayer, Task};

use crate::{
    evidence::new_evidence,
    policy::Policy,
    pristine::{patch_paths, read_entries, read_entry, workdir_path},
};

/// The state that a patch is compared with.
pub(crate) struct ScreeningBase<'a> {
    /// Every path of the work directory before the patch is applied; relative and escaped.
    pub entries: &'a BTreeMap<String, EntryKind>,
    /// Modules that the environment or the language provides, so that a patch cannot claim them as
    /// its own. If `None`, the patch cannot claim any module.
    pub provided_modules: Option<&'a BTreeSet<String>>,
    /// Whether a path is screened.
    pub is_screened: &'a (dyn Fn(&str) -> bool + Sync),
}

/// Returns evidence for each rule that a patch breaks. The sandbox must contain the task's source
/// without the patch and without the solution.
pub(crate) async fn screen_patch(
    handle: &SandboxHandle,
    task: &Task,
    patch: &[u8],
    base: &ScreeningBase<'_>,
) -> Result<Vec<Evidence>, Fault> {
    let gold = gold_patch(task).ok().flatten();
    let Ok(touched) = patch_paths(patch) else { return Ok(Vec::new()) };
    let of_gold = gold.as_deref().and_then(|gold| patch_paths(gold).ok()).unwrap_or_default();
    let wanted: BTreeSet<&String> = touched.iter().chain(&of_gold).collect();
    let wanted = wanted.into_iter().cloned().collect();
    let before = read_entries(handle, &task.workdir, wanted).await?;
    let mut before: BTreeMap<String, CurrentFile> =
        before.into_iter().filter_map(|(path, current)| Some((path, current?))).collect();
    let changes = PatchChanges::new(patch, &before);
    let linked = changes.linked_paths();
    for path in linked.into_iter().filter(|path| !touched.contains(path)) {
        // If the target cannot be read, the link is a finding.
        if let Ok(Some(current)) = read_entry(handle, &task.workdir, &path).await {
            before.insert(path, current);
        }
    }
    screening_evidence(task, &changes, &before, &touched, base)
}

/// Like [`screen_patch`], for a submission from scratch, which is not in the sandbox yet.
pub(crate) fn screen_submission(
    task: &Task,
    patch: &[u8],
    base: &ScreeningBase<'_>,
) -> Result<Vec<Evidence>, Fault> {
    let files = task.from_scratch.as_ref().map(|start| &start.files);
    let before: BTreeMap<String, CurrentFile> =
        files.into_iter().flatten().map(|(path, text)| (path.clone(), text_file(text))).collect();
    let Ok(touched) = patch_paths(patch) else { return Ok(Vec::new()) };
    let changes = PatchChanges::new(patch, &before);
    screening_evidence(task, &changes, &before, &touched, base)
}

fn text_file(text: &str) -> CurrentFile {
    CurrentFile::File { bytes: text.as_bytes().to_vec(), mode: 0o644 }
}

/// Whether pytest alone judges a task: there is no other report, and all tests are in Python files.
fn is_judged_by_pytest(task: &Task) -> bool {
    let mut tests = task.fail_to_pass.iter().chain(&task.pass_to_pass);
    task.harbor.is_none()
        && task.command_test_results().is_none()
        && !task.fail_to_pass.is_empty()
        && tests.all(|id| id.split("::").next().is_some_and(|file| file.ends_with(".py")))
}

fn screening_evidence(
    task: &Task,
    changes: &PatchChanges,
    original_files: &BTreeMap<String, CurrentFile>,
    touched_paths: &BTreeSet<String>,
    base: &ScreeningBase<'_>,
) -> Result<Vec<Evidence>, Fault> {
    let roots = &Policy::get()?.names.import_roots;
    let mut owned = own_packages(base.entries.keys(), roots, &BTreeSet::new());
    if let Some(provided) = base.provided_modules {
        owned.extend(own_packages(touched_paths.iter(), roots, provided));
    }
    let gold = gold_patch(task).ok().flatten();
    let input = ScreeningInput {
        changes,
        gold_patch: gold.as_deref(),
        original_files,
        owned_modules: &owned,
        is_judged_by_pytest: is_judged_by_pytest(task),
        is_screened: base.is_screened,
    };
    let screening =
        screen(&input).map_err(|error| Fault::new(FaultLayer::Grade, error.to_string()))?;
    let found = screening.findings.iter();
    Ok(found.map(|finding| new_evidence(&finding.evidence, finding.to_string())).collect())
}

/// Lists the paths at the import roots of a work directory. Does not read file contents.
pub(crate) async fn entries_at_roots(
    handle: &SandboxHandle,
    workdir: &str,
) -> Result<BTreeMap<String, EntryKind>, Fault> {
    let mut names = BTreeMap::new();
    for folder in &Policy::get()?.names.import_roots {
        // A missing root has no entries.
        let Ok(entries) = handle.list(&workdir_path(workdir, folder)).await else { continue };
        for entry in entries {
            let name = entry.name.to_escaped();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            names.insert(path, entry.kind);
        }
    }
    let packages: Vec<String> = names
        .iter()
        .filter(|(_, kind)| **kind == EntryKind::Dir)
        .map(|(path, _)| path.clone())
        .collect();
    for package in packages {
        let init = format!("{package}/__init__.py");
        if handle.stat(&workdir_path(workdir, &init)).await.ok().flatten().is_some() {
            names.insert(init, EntryKind::File);
        }
    }
    Ok(names)
}
