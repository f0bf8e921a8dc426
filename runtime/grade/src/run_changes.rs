//! Detects files that a run changed on disk, by their change times (ctime). A program can restore a
//! file's content and its other times, but not its ctime. Therefore one walk after the run is
//! enough, and no file has to be read.

use std::collections::{BTreeMap, BTreeSet};

use proctor_sandbox_api::{
    SandboxError, SandboxHandle,
    wire::{ChangeTime, ChangesRequest, EntryKind, RawPath, RefusalKind},
};
use proctor_types::{Evidence, Fault};

use crate::{
    evidence::{self, new_evidence},
    patched_tree::PatchedTree,
    path_rules::{GuardReason, PathRules},
    policy::Policy,
    pristine::{PristineTree, workdir_path},
    probe::Probe,
};

#[derive(Debug, Default)]
pub(crate) struct RunChanges {
    /// Changed entries below the work directory; paths are relative and escaped.
    pub workdir_entries: BTreeMap<String, EntryKind>,
    /// Changed files on the rest of the import path; paths are absolute.
    pub outside_files: BTreeSet<String>,
    /// Folders that can no longer be scanned, each with the reason.
    scan_failures: Vec<String>,
}

impl RunChanges {
    /// Finds the changed files in the work directory and in every other folder from which modules
    /// are imported.
    pub(crate) async fn detect(
        handle: &SandboxHandle,
        workdir: &str,
        probe: &Probe,
        policy: &Policy,
        start_time: ChangeTime,
    ) -> Result<Self, Fault> {
        let mut found = Self::default();
        let skip = policy.history_folders.iter().chain(&policy.unwatched);
        let skip: Vec<RawPath> = skip.map(|name| RawPath::from(name.as_str())).collect();
        let ask = async |root: RawPath| {
            let entry_limit = policy.limits.entries as u64;
            let request =
                ChangesRequest { root, since: start_time, skip: skip.clone(), entry_limit };
            match handle.list_changes(request).await {
                Ok(reply) if reply.unwalked.is_empty() => Ok(Ok(reply.changed)),
                Ok(reply) => {
                    let folder = &reply.unwalked[0];
                    Ok(Err(format!("{folder}: too large to scan")))
                }
                Err(SandboxError::Refused(refusal)) if refusal.why == RefusalKind::TooLarge => {
                    Ok(Err(refusal.what))
                }
                // This entry of the import path is an archive instead of a folder.
                Err(SandboxError::Refused(_)) => Ok(Ok(Vec::new())),
                Err(error) => Err(error.to_fault("listing the files changed during the run")),
            }
        };
        match ask(RawPath::from(workdir)).await? {
            Ok(changed) => {
                let entries =
                    changed.into_iter().map(|entry| (entry.path.to_escaped(), entry.kind));
                found.workdir_entries = entries.collect();
            }
            Err(why) => found.scan_failures.push(why),
        }
        for folder in outermost_folders(&probe.outside) {
            match ask(RawPath::from(folder)).await? {
                Ok(changed) => found.outside_files.extend(
                    changed
                        .iter()
                        .filter(|entry| entry.kind != EntryKind::Dir)
                        .map(|entry| format!("{folder}/{}", entry.path.to_escaped())),
                ),
                Err(why) => found.scan_failures.push(why),
            }
        }
        Ok(found)
    }

    /// Returns evidence for changes that invalidate the run: files that tests rely on and that were
    /// written, created or deleted, and modules written to a folder from which the interpreter
    /// imports the environment's modules.
    ///
    /// New files that nothing loads because of their location (output, caches, snapshots) are
    /// allowed.
    pub(crate) async fn evaluate(
        &self,
        handle: &SandboxHandle,
        workdir: &str,
        policy: &Policy,
        patched_tree: &PatchedTree<'_>,
    ) -> Result<Vec<Evidence>, Fault> {
        let mut found: Vec<String> = self.scan_failures.clone();
        let (pristine, paths) = (patched_tree.pristine, patched_tree.paths);
        let was_there = |path: &str| patched_tree.existed_before_run(path);
        for (path, kind) in &self.workdir_entries {
            if *kind == EntryKind::Dir || is_unwatched(policy, path) {
                continue;
            }
            if was_there(path) {
                if paths.is_watched(path) {
                    found.push(format!("{path}: written during the run"));
                }
            } else if paths.is_in_test_folder(path) && is_loaded_by_location(policy, paths, path) {
                found.push(format!("{path}: created during the run"));
            }
        }
        let mut folders: BTreeSet<&str> = BTreeSet::new();
        for (path, kind) in &self.workdir_entries {
            if *kind == EntryKind::Dir && paths.contains_watched_entry(path) {
                folders.insert(path);
            }
        }
        // The entries do not include the work directory itself, so check it separately.
        if paths.contains_watched_entry("") {
            folders.insert("");
        }
        for folder in folders {
            let there = match handle.list(&workdir_path(workdir, folder)).await {
                Ok(entries) => entries.iter().map(|entry| entry.name.to_escaped()).collect(),
                Err(SandboxError::Refused(_)) => BTreeSet::new(),
                Err(error) => {
                    return Err(error.to_fault("listing the files changed during the run"));
                }
            };
            for (path, name) in direct_entries(pristine, folder) {
                let is_folder = pristine.entries.get(path) == Some(&EntryKind::Dir);
                let expected = if is_folder {
                    let below = format!("{path}/");
                    paths.is_in_test_folder(path)
                        && pristine.files.keys().any(|file| file.starts_with(&below))
                } else {
                    was_there(path) && paths.is_watched(path)
                };
                if expected && !is_unwatched(policy, path) && !there.contains(name) {
                    found.push(format!("{path}: removed during the run"));
                }
            }
        }
        for path in &self.outside_files {
            if is_importable(policy, path)
                || is_bytecode(policy, path)
                || is_self_loading(policy, path)
            {
                found.push(format!("{path}: written during the run"));
            }
        }
        let mut evidence: Vec<Evidence> = found
            .into_iter()
            .map(|what| new_evidence(evidence::CHANGED_DURING_RUN, what))
            .collect();
        let made: BTreeSet<String> = self
            .workdir_entries
            .iter()
            .filter(|(_, kind)| **kind != EntryKind::Dir)
            .map(|(path, _)| path.clone())
            .collect();
        for path in patched_tree.roots.find_shadows(pristine, &made) {
            evidence.push(new_evidence(
                evidence::MODULE_REPLACED,
                format!("{path}: created during the run"),
            ));
        }
        Ok(evidence)
    }
}

/// Returns the folders that are not inside any of the others.
fn outermost_folders(folders: &[String]) -> Vec<&str> {
    let is_below = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    let distinct: BTreeSet<&str> = folders.iter().map(String::as_str).collect();
    let all: Vec<&str> = distinct.into_iter().collect();
    all.iter().copied().filter(|one| !all.iter().any(|other| is_below(one, other))).collect()
}

/// The entries directly in a folder: their paths and names.
fn direct_entries<'a>(pristine: &'a PristineTree, folder: &'a str) -> Vec<(&'a str, &'a str)> {
    let of = |path: &'a String| {
        let rest = match folder {
            "" => path.as_str(),
            folder => path.strip_prefix(folder)?.strip_prefix('/')?,
        };
        (!rest.contains('/')).then_some((path.as_str(), rest))
    };
    let names: BTreeMap<&str, &str> =
        pristine.entries.keys().chain(pristine.files.keys()).filter_map(of).collect();
    names.into_iter().collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_importable(policy: &Policy, path: &str) -> bool {
    policy.importable_suffixes.iter().any(|end| path.ends_with(end.as_str()))
}

fn is_bytecode(policy: &Policy, path: &str) -> bool {
    policy.bytecode_suffixes.iter().any(|end| path.ends_with(end.as_str()))
}

fn is_self_loading(policy: &Policy, path: &str) -> bool {
    policy.self_loading_suffixes.iter().any(|end| path.ends_with(end.as_str()))
}

/// Whether an interpreter or pytest loads a file because of its location.
fn is_loaded_by_location(policy: &Policy, paths: &PathRules<'_>, path: &str) -> bool {
    is_importable(policy, path)
        || is_bytecode(policy, path)
        || matches!(paths.guard_reason(path), Some(GuardReason::Config | GuardReason::SelfLoading))
}

fn is_unwatched(policy: &Policy, path: &str) -> bool {
    let is_named = |part: &str| {
        // Also matches `.coverage.host.123`.
        policy.unwatched.iter().any(|name| {
            part.strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    path.split('/').any(is_named) || file_name(path).is_empty()
}
