//! Screens a patch before it is applied, while the sandbox still contains the base of the patch.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::{Current, gold_of};
use proctor_sandbox_api::{SandboxHandle, wire::EntryKind};
use proctor_screening::{Input, own_packages, screen};
use proctor_types::{Evidence, Fault, Layer, Task};

use crate::{
    evidence::note,
    policy::Policy,
    pristine::{at, paths_of, read_all},
};

/// The state that a patch is compared with.
pub(crate) struct Base<'a> {
    /// Every path of the work directory before the patch is applied; relative and escaped.
    pub names: &'a BTreeMap<String, EntryKind>,
    /// Modules that the environment or the language provides, which a patch cannot claim. If `None`, the
    /// patch cannot claim any module.
    pub provided: Option<&'a BTreeSet<String>>,
    /// Whether a path is screened.
    pub screened: &'a (dyn Fn(&str) -> bool + Sync),
}

/// Returns evidence for each rule that a patch breaks. The sandbox must have the task's source without
/// the patch and the solution.
pub(crate) async fn screen_patch(
    handle: &SandboxHandle,
    task: &Task,
    patch: &[u8],
    base: &Base<'_>,
) -> Result<Vec<Evidence>, Fault> {
    let gold = gold_of(task).ok().flatten();
    let Ok(touched) = paths_of(patch) else { return Ok(Vec::new()) };
    let of_gold = gold.as_deref().and_then(|gold| paths_of(gold).ok()).unwrap_or_default();
    let wanted: BTreeSet<&String> = touched.iter().chain(&of_gold).collect();
    let wanted = wanted.into_iter().cloned().collect();
    let before = read_all(handle, &task.workdir, wanted).await?;
    let before: BTreeMap<String, Current> =
        before.into_iter().filter_map(|(path, current)| Some((path, current?))).collect();
    judge(patch, gold.as_deref(), &before, &touched, base)
}

/// Like [`screen_patch`], for a submission from scratch, which is not in the sandbox yet.
pub(crate) fn screen_submission(
    task: &Task,
    patch: &[u8],
    base: &Base<'_>,
) -> Result<Vec<Evidence>, Fault> {
    let files = task.from_scratch.as_ref().map(|start| &start.files);
    let before: BTreeMap<String, Current> =
        files.into_iter().flatten().map(|(path, text)| (path.clone(), file(text))).collect();
    let Ok(touched) = paths_of(patch) else { return Ok(Vec::new()) };
    judge(patch, gold_of(task).ok().flatten().as_deref(), &before, &touched, base)
}

fn file(text: &str) -> Current {
    Current::File { bytes: text.as_bytes().to_vec(), mode: 0o644 }
}

fn judge(
    patch: &[u8],
    gold: Option<&[u8]>,
    before: &BTreeMap<String, Current>,
    touched: &BTreeSet<String>,
    base: &Base<'_>,
) -> Result<Vec<Evidence>, Fault> {
    let roots = &Policy::get()?.names.import_roots;
    let mut owned = own_packages(base.names.keys(), roots, &BTreeSet::new());
    if let Some(provided) = base.provided {
        owned.extend(own_packages(touched.iter(), roots, provided));
    }
    let input = Input { patch, gold, before, owned: &owned, screened: base.screened };
    let screening = screen(&input).map_err(|error| Fault::new(Layer::Grade, error.to_string()))?;
    let found = screening.findings.iter();
    Ok(found.map(|finding| note(&finding.evidence, finding.to_string())).collect())
}

/// Lists the paths at the import roots of a work directory. Does not read file contents.
pub(crate) async fn names_at_roots(
    handle: &SandboxHandle,
    workdir: &str,
) -> Result<BTreeMap<String, EntryKind>, Fault> {
    let mut names = BTreeMap::new();
    for folder in &Policy::get()?.names.import_roots {
        // A missing root has no entries.
        let Ok(entries) = handle.list(&at(workdir, folder)).await else { continue };
        for entry in entries {
            let name = entry.name.escaped();
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
        if handle.stat(&at(workdir, &init)).await.ok().flatten().is_some() {
            names.insert(init, EntryKind::File);
        }
    }
    Ok(names)
}
