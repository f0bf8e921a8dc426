//! Carves the chosen code out of the project, except for code that is needed at import time.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use proctor_patch::Patch;

use super::{objects::Objects, traverse::ExtractedObjects};
use crate::{CarveError, CarveOptions, Carving, Kind, carve::definitions, carve_with_options};

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

/// Returns the removed methods of classes that cannot be defined any more, according to the
/// tracebacks in a failed run's log. A class decorator or a metaclass may need a method without
/// naming it in its error, as `functools.total_ordering` does.
pub(super) fn methods_of_failed_classes(
    log: &str,
    carving: &Carving,
    objects: &Objects,
    removed_objects: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let frames: Vec<(&str, usize)> = log.lines().filter_map(module_frame).collect();
    let mut out = BTreeSet::new();
    for (file, (_, after)) in &carving.files {
        let is_here = |path: &str| path == file || path.ends_with(&format!("/{file}"));
        let lines: BTreeSet<usize> =
            frames.iter().filter(|(path, _)| is_here(path)).map(|(_, line)| *line).collect();
        if lines.is_empty() {
            continue;
        }
        for class in definitions(file, after).unwrap_or_default() {
            if class.kind != Kind::Class || lines.range(class.first..=class.last).next().is_none() {
                continue;
            }
            let below = format!("{}.", class.path);
            out.extend(removed_objects.iter().copied().filter(|&index| {
                let object = objects.list.get(index);
                object.is_some_and(|it| it.file == *file && it.path.starts_with(&below))
            }));
        }
    }
    out
}

/// Reads a traceback line for a module's own code, in pytest's or Python's format. Returns the path
/// and the line number.
fn module_frame(line: &str) -> Option<(&str, usize)> {
    if let Some(place) = line.strip_suffix(": in <module>") {
        let (path, number) = place.rsplit_once(':')?;
        return Some((path.trim(), number.parse().ok()?));
    }
    let place = line.trim().strip_prefix("File \"")?.strip_suffix(", in <module>")?;
    let (path, number) = place.split_once("\", line ")?;
    Some((path, number.parse().ok()?))
}

/// Returns the number of lines that a mask removes.
pub(super) fn count_removed_lines(mask: &str) -> usize {
    Patch::parse(mask.as_bytes()).count_changed_lines().1
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn methods_of_failed_classes_finds_methods_that_a_decorator_needs() {
        let before = "@total_ordering\nclass Unit:\n    def __lt__(self, other):\n        return 1\n\n\nclass Other:\n    def run(self):\n        return 2\n";
        let after = "@total_ordering\nclass Unit:\n    pass\n\n\nclass Other:\n    pass\n";
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("src/pkg")).unwrap();
        fs::write(tree.path().join("src/pkg/time.py"), before).unwrap();
        let file = "src/pkg/time.py".to_owned();
        let objects = Objects::scan(tree.path(), std::slice::from_ref(&file));
        let index = |path: &str| objects.find_by_path(&file, path).unwrap();
        let removed = BTreeSet::from([index("Unit.__lt__"), index("Other.run")]);
        let files = BTreeMap::from([(file.clone(), (before.to_owned(), after.to_owned()))]);
        let carving = Carving { objects: Vec::new(), files };
        let found = |log: &str| methods_of_failed_classes(log, &carving, &objects, &removed);
        let needed = BTreeSet::from([index("Unit.__lt__")]);
        let pytest = "tests/test_a.py:3: in <module>\n    import pkg\nsrc/pkg/time.py:1: in <module>\n    @total_ordering\nE   ValueError: must define at least one ordering operation\n";
        assert_eq!(found(pytest), needed);
        let python = "Traceback (most recent call last):\n  File \"/testbed/src/pkg/time.py\", line 1, in <module>\n";
        assert_eq!(found(python), needed);
        // A frame in another file or outside a class says nothing.
        for log in ["lib/src/pkg/time.pyx:1: in <module>", "src/pkg/time.py:4: in <module>", ""] {
            assert_eq!(found(log), BTreeSet::new(), "{log}");
        }
    }
}
