//! Compares what agents bring into a sandbox with what the plan's tasks hide.

use std::{collections::BTreeMap, path::PathBuf};

use proctor_core::PlannedTask;
use proctor_setup::{BundleCopy, bundle_copies};
use proctor_types::{Arm, Task, plural};
use serde_json::Value;

use crate::{
    checks::{AtArm, named},
    config::ConfigFile,
    error::UserError,
    scaffolds,
};

/// Rejects an agent whose bundle contains a copy of what a task hides, or of the package under
/// test. Bundles that are not built are skipped: a run builds them first.
pub fn check(
    file: &ConfigFile,
    arms: &[Arm],
    tasks: &[PlannedTask],
    place: AtArm<'_>,
) -> Result<(), UserError> {
    let tasks: Vec<&Task> = tasks.iter().map(|planned| planned.task.as_ref()).collect();
    let mut wrong = Vec::new();
    for (digest, folders) in folders(file)? {
        let mut copies = BTreeMap::new();
        for folder in folders {
            let found = bundle_copies(&folder, &tasks)
                .map_err(|fault| UserError { what: fault.what, hint: fault.hint })?;
            copies.extend(found);
        }
        let of_bundle = |arm: &&Arm| arm.prompts["bundle"]["digest"] == digest.as_str();
        let arms: Vec<&Arm> = arms.iter().filter(of_bundle).collect();
        if let (Some(first), false) = (arms.first(), copies.is_empty()) {
            wrong.push((*first, said(&arms, &tasks, &copies)));
        }
    }
    let Some((first, _)) = wrong.first() else { return Ok(()) };
    let what = wrong.iter().map(|(_, said)| said.as_str()).collect::<Vec<_>>().join("; ");
    let error = UserError::new(what).hint(
        "agents can read their own packages: run these tasks with other arms, or exclude them \
         (append `#ids=FILE` to the dataset)",
    );
    Err(place(first, "scaffold", error))
}

/// The directories that a configuration's scaffolds lend to their sandboxes, by bundle digest.
fn folders(file: &ConfigFile) -> Result<BTreeMap<String, Vec<PathBuf>>, UserError> {
    let mut found = BTreeMap::new();
    for arm in &file.arms {
        let Some(scaffold) = scaffolds::named(&arm.scaffold)? else { continue };
        if let Some(Value::String(digest)) = scaffold.factors()["bundle"].get("digest") {
            let folders = scaffold.mounts().into_iter().map(|mount| mount.folder).collect();
            found.insert(digest.clone(), folders);
        }
    }
    Ok(found)
}

fn said(arms: &[&Arm], tasks: &[&Task], copies: &BTreeMap<usize, BundleCopy>) -> String {
    let names = arms.iter().map(|arm| format!("`{}`", arm.name)).collect::<Vec<_>>().join(", ");
    let of = if arms.len() == 1 { "arm" } else { "arms" };
    let hidden = copies.keys().filter_map(|at| tasks.get(*at)).map(|task| task.id.as_str());
    let first = copies.values().next().map_or(String::new(), |copy| {
        format!(" (the first: {} at {}/{})", copy.what, proctor_bundles::MOUNT, copy.place)
    });
    format!(
        "the agent of {of} {names} contains a copy of the solution of {}: {}{first}",
        plural(copies.len(), "task"),
        named(hidden)
    )
}
