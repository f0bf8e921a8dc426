//! Checks whether agents' bundles contain content that the plan's tasks hide.

use std::collections::BTreeMap;

use proctor_config::ConfigFile;
use proctor_run::PlannedTask;
use proctor_sandbox_api::{Mount, wire::RawPath};
use proctor_scaffold_api::ScaffoldSource;
use proctor_setup::{BundleCopy, find_bundle_copies};
use proctor_types::{Arm, Task, UserError, count_with_noun};
use serde_json::Value;

use crate::error::{ArmLocator, format_ids};

/// Rejects an agent whose bundle contains a copy of a task's hidden content or of the package under
/// test. Skips bundles that have not been built yet.
pub fn check_bundles(
    scaffolds: &dyn ScaffoldSource,
    file: &ConfigFile,
    arms: &[Arm],
    tasks: &[PlannedTask],
    add_location: ArmLocator<'_>,
) -> Result<(), UserError> {
    let tasks: Vec<&Task> = tasks.iter().map(|planned| planned.task.as_ref()).collect();
    let mut wrong = Vec::new();
    for (digest, mounts) in bundle_mounts(scaffolds, file)? {
        let mut copies = BTreeMap::new();
        for mount in mounts {
            let found = find_bundle_copies(&mount.folder, &tasks)
                .map_err(|fault| UserError { message: fault.what, hint: fault.hint })?;
            copies.extend(
                found.into_iter().map(|(at, copy)| (at, (mount.mount_point.clone(), copy))),
            );
        }
        let of_bundle = |arm: &&Arm| arm.prompts["bundle"]["digest"] == digest.as_str();
        let arms: Vec<&Arm> = arms.iter().filter(of_bundle).collect();
        if let (Some(first), false) = (arms.first(), copies.is_empty()) {
            wrong.push((*first, describe_copies(&arms, &tasks, &copies)));
        }
    }
    let Some((first, _)) = wrong.first() else { return Ok(()) };
    let what = wrong.iter().map(|(_, said)| said.as_str()).collect::<Vec<_>>().join("; ");
    let error = UserError::new(what).hint(
        "agents can read their own packages: run these tasks with other arms, or exclude them \
         (append `#ids=FILE` to the dataset)",
    );
    Err(add_location(first, "scaffold", error))
}

/// Returns the directories that a configuration's scaffolds mount into their sandboxes, by bundle
/// digest.
fn bundle_mounts(
    scaffolds: &dyn ScaffoldSource,
    file: &ConfigFile,
) -> Result<BTreeMap<String, Vec<Mount>>, UserError> {
    let mut found = BTreeMap::new();
    for arm in &file.arms {
        let Some(scaffold) = scaffolds.find_scaffold(&arm.scaffold)? else { continue };
        if let Some(Value::String(digest)) = scaffold.factors()["bundle"].get("digest") {
            found.insert(digest.clone(), scaffold.mounts());
        }
    }
    Ok(found)
}

/// The copies of hidden content in a bundle: for each task index, the bundle's mount point in the
/// agent's sandbox, and the copy.
type BundleCopies = BTreeMap<usize, (RawPath, BundleCopy)>;

fn describe_copies(arms: &[&Arm], tasks: &[&Task], copies: &BundleCopies) -> String {
    let names = arms.iter().map(|arm| format!("`{}`", arm.name)).collect::<Vec<_>>().join(", ");
    let of = if arms.len() == 1 { "arm" } else { "arms" };
    let hidden = copies.keys().filter_map(|at| tasks.get(*at)).map(|task| task.id.as_str());
    let first = copies.values().next().map_or(String::new(), |(at, copy)| {
        format!(" (first: {} at {at}/{})", copy.description, copy.path)
    });
    format!(
        "the agent used by {of} {names} contains a copy of the solution to {}: {}{first}",
        count_with_noun(copies.len(), "task"),
        format_ids(hidden)
    )
}
