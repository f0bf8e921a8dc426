//! Restores the guarded files after a patch was applied.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::CurrentFile;
use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_types::{Evidence, Fault};

use crate::{
    Defenses,
    evidence::{self, new_evidence},
    path_rules::{GuardReason, PathRules},
    pristine::{PristineTree, read_entries, read_entry, workdir_path},
};

/// Restores every guarded path: rewrites changed files and removes files that did not exist before.
///
/// `changed_paths` contains the paths that the model's patch changed. Only these produce evidence.
/// `removed_paths` contains the hidden and masked paths, which grading itself removed before
/// applying the patch.
pub(crate) async fn restore_guarded_paths(
    handle: &SandboxHandle,
    workdir: &str,
    pristine: &PristineTree,
    paths: &PathRules<'_>,
    changed_paths: &BTreeSet<String>,
    removed_paths: &BTreeSet<String>,
    defenses: Defenses,
) -> Result<Vec<Evidence>, Fault> {
    let mut found = Vec::new();
    for path in remove_folder_replacements(handle, workdir, pristine, changed_paths).await? {
        found.push(new_evidence(
            evidence::TEST_RESTORED,
            format!("{path}: removed, because it replaced a folder"),
        ));
    }
    let guarded: BTreeMap<&String, GuardReason> = changed_paths
        .iter()
        .chain(removed_paths)
        .filter_map(|path| paths.guard_reason(path).map(|guard| (path, guard)))
        .filter(|(path, guard)| {
            !changed_paths.contains(*path) || is_defense_active(*guard, defenses)
        })
        .collect();
    for (path, guard) in &guarded {
        let now = read_entry(handle, workdir, path).await?;
        let was = pristine.files.get(*path).filter(|_| *guard != GuardReason::Bytecode);
        if now.as_ref() == was {
            continue;
        }
        replace_entry(handle, workdir, path, was).await?;
        if changed_paths.contains(*path) {
            let did = if was.is_some() { "restored" } else { "removed" };
            found.push(new_evidence(evidence_kind(*guard), format!("{path}: {did}")));
        }
    }
    // The test patch's files are written whether or not the model's patch changed them.
    let done = |path: &String| guarded.contains_key(path) || changed_paths.contains(path);
    let rest = pristine.files.keys().filter(|path| !done(path)).cloned().collect();
    for (path, now) in read_entries(handle, workdir, rest).await? {
        let was = pristine.files.get(&path);
        if now.as_ref() != was {
            replace_entry(handle, workdir, &path, was).await?;
        }
    }
    Ok(found)
}

fn is_defense_active(reason: GuardReason, defenses: Defenses) -> bool {
    match reason {
        GuardReason::Test => defenses.restore_tests,
        GuardReason::Config => defenses.restore_config,
        GuardReason::SelfLoading => defenses.remove_self_loading,
        GuardReason::Bytecode => defenses.remove_bytecode,
    }
}

fn evidence_kind(reason: GuardReason) -> &'static str {
    match reason {
        GuardReason::Test => evidence::TEST_RESTORED,
        GuardReason::Config => evidence::CONFIG_RESTORED,
        GuardReason::SelfLoading => evidence::SELF_LOADING_REMOVED,
        GuardReason::Bytecode => evidence::BYTECODE_REMOVED,
    }
}

/// Removes a file or link that a patch created in place of a folder, so that nothing is written
/// through the link. This applies only to folders with stored files. Replacing another folder is
/// allowed, because moving a package and leaving a link is honest work.
async fn remove_folder_replacements(
    handle: &SandboxHandle,
    workdir: &str,
    pristine: &PristineTree,
    changed_paths: &BTreeSet<String>,
) -> Result<Vec<String>, Fault> {
    let mut cleared = Vec::new();
    for path in changed_paths {
        let folder = format!("{path}/");
        let kept_below = pristine.files.keys().any(|kept| kept.starts_with(&folder));
        if kept_below && read_entry(handle, workdir, path).await?.is_some() {
            remove_entry(handle, workdir, path).await?;
            cleared.push(path.clone());
        }
    }
    Ok(cleared)
}

pub(crate) async fn replace_entry(
    handle: &SandboxHandle,
    workdir: &str,
    path: &str,
    original: Option<&CurrentFile>,
) -> Result<(), Fault> {
    let root = RawPath::from(workdir);
    let full = workdir_path(workdir, path);
    // Remove the file first, so that nothing is written through a link. Also, the new file then has
    // a new modification time, so that a compiled copy of an edited file does not match it.
    remove_entry(handle, workdir, path).await?;
    match original {
        Some(CurrentFile::File { bytes, mode }) => handle
            .write_beneath(&root, &full, bytes, Some(*mode))
            .await
            .map_err(|error| error.to_fault(format!("restoring {path}"))),
        Some(CurrentFile::Link { target }) => handle
            .symlink_beneath(&root, &full, target)
            .await
            .map_err(|error| error.to_fault(format!("restoring {path}"))),
        None => Ok(()),
    }
}

pub(crate) async fn remove_entry(
    handle: &SandboxHandle,
    workdir: &str,
    path: &str,
) -> Result<(), Fault> {
    handle
        .remove(&workdir_path(workdir, path))
        .await
        .map_err(|error| error.to_fault(format!("removing {path}")))
}
