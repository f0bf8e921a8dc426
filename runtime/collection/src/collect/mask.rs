//! Carves the chosen code out of the project, except for code that is needed at import time.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use proctor_patch::Patch;

use super::{objects::Objects, traverse::ExtractedObjects};
use crate::{CarveError, CarveOptions, Carving, carve_with_options};

/// Removes as much of `extracted` as possible without breaking imports in the remaining code.
/// Afterwards, `extracted` contains only the objects that were removed.
///
/// # Errors
/// Returns the reason as a sentence if nothing can be removed.
pub(super) fn carve_importable(
    tree: &Path,
    objects: &Objects,
    extracted: &mut ExtractedObjects,
    protected_files: &[String],
    max_rounds: usize,
) -> Result<Carving, String> {
    let mut last = String::new();
    let modules = objects.modules();
    // Allow many rounds, because each round restores only the objects that one error names.
    for _ in 0..max_rounds.max(1) * 8 {
        let all = extracted.all_objects();
        if all.is_empty() {
            return Err(match last.is_empty() {
                true => "nothing is left to remove".to_owned(),
                false => format!("imports need everything that would be removed: {last}"),
            });
        }
        let paths_to_remove = objects.paths_by_file(&all);
        let modules = Some(&modules);
        let options = CarveOptions { edit_importers: true, protected_files, modules };
        match carve_with_options(tree, &paths_to_remove, options) {
            Ok(carving) => return Ok(carving),
            Err(error) => {
                let back = needed_objects(&error, objects, &all);
                last = error.to_string();
                if back.is_empty() {
                    return Err(last);
                }
                extracted.restore(&back);
            }
        }
    }
    Err(last)
}

/// Returns the objects in `removed_objects` to which a carving error refers.
fn needed_objects(
    error: &CarveError,
    objects: &Objects,
    removed_objects: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let of = |fits: &dyn Fn(&super::objects::Object) -> bool| -> BTreeSet<usize> {
        let indices = removed_objects.iter().copied();
        indices.filter(|&index| objects.list.get(index).is_some_and(fits)).collect()
    };
    match error {
        CarveError::Needed { file, name, .. } => {
            let here = of(&|object| object.file == *file && object.path == *name);
            if !here.is_empty() {
                return here;
            }
            // `name` may be an object imported from another module, or an alias.
            let tail = name.rsplit('.').next().unwrap_or(name);
            let top = of(&|object| object.path == tail);
            if !top.is_empty() { top } else { of(&|object| object.name() == tail) }
        }
        CarveError::Broken { file, .. }
        | CarveError::Syntax { file, .. }
        | CarveError::Unreadable { file, .. } => of(&|object| object.file == *file),
        CarveError::NotFound { file, path, .. } => {
            of(&|object| object.file == *file && object.path == *path)
        }
    }
}

/// Returns the objects in `removed_objects` that a failed run's error messages mention.
pub(super) fn objects_in_log(
    log: &str,
    objects: &Objects,
    removed_objects: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut by_name: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for &index in removed_objects {
        if let Some(object) = objects.list.get(index) {
            by_name.entry(object.name()).or_default().insert(index);
        }
    }
    let mut out = BTreeSet::new();
    // Match pytest's error lines, and exceptions printed by Python itself.
    let errors = log.lines().filter(|line| line.starts_with("E  ") || line.contains("Error: "));
    for line in errors {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        for word in words {
            if let Some(found) = by_name.get(word) {
                out.extend(found);
            }
        }
    }
    out
}

/// Returns the number of lines that a mask removes.
pub(super) fn count_removed_lines(mask: &str) -> usize {
    Patch::parse(mask.as_bytes()).count_changed_lines().1
}
