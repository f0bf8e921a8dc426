//! Finds a task's test folders by name and content.
//!
//! A false positive discards honest work in that folder. A false negative lets a patch change a
//! test's helpers. Therefore a folder counts if its name contains "test", unless the solution is in
//! it. Any other folder must look like tests.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::gold_patch;
use proctor_sandbox_api::wire::EntryKind;
use proctor_types::Task;

use crate::{
    paths::{is_at_or_below, parent},
    policy::Policy,
    pristine::patch_paths,
};

type EntryMap = BTreeMap<String, EntryKind>;

/// Returns the folders that contain only tests, and the folders that contain tests and other files.
pub(crate) fn find_test_folders(
    policy: &Policy,
    task: &Task,
    task_paths: &BTreeSet<String>,
    masked_paths: &BTreeSet<String>,
    entries: &EntryMap,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let solution = solution_paths(task, task_paths, masked_paths);
    let (mut trees, mut beside) = (BTreeSet::new(), BTreeSet::new());
    for path in task_paths {
        if let Some(tree) = test_folder_by_name(policy, path, &solution) {
            trees.insert(tree);
        } else if path.ends_with(".py") {
            let folder = parent(path);
            if looks_like_tests(folder, task_paths, &solution, entries) {
                trees.insert(folder.to_owned());
            } else {
                beside.insert(folder.to_owned());
            }
        }
    }
    (trees, beside)
}

/// Whether a file name matches pytest's rules for test files.
pub(crate) fn is_test_file(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".py") else { return false };
    stem.starts_with("test_") || stem.ends_with("_test") || stem.ends_with("_tests")
}

/// Returns the paths that the solution changes, except tests.
fn solution_paths(
    task: &Task,
    task_paths: &BTreeSet<String>,
    masked_paths: &BTreeSet<String>,
) -> BTreeSet<String> {
    let gold = gold_patch(task).ok().flatten();
    let gold = gold.and_then(|gold| patch_paths(&gold).ok()).unwrap_or_default();
    let is_test = |path: &String| {
        task_paths.iter().any(|own| is_at_or_below(own, path))
            || is_test_file(path.rsplit('/').next().unwrap_or(path))
            || path.ends_with("conftest.py")
    };
    gold.union(masked_paths).filter(|path| !is_test(path)).cloned().collect()
}

/// Returns the path up to the first folder with a test-like name. Prefers a folder that does not
/// contain the solution, even if it is further down. A folder that contains the solution is
/// returned only if packages don't also use its name for test helpers that they ship, such as
/// `testing`.
fn test_folder_by_name(policy: &Policy, path: &str, solution: &BTreeSet<String>) -> Option<String> {
    let folders: Vec<&str> = parent(path).split('/').collect();
    let up_to = |at: usize| folders[..=at].join("/");
    let is = |at: &usize, names: &[String]| names.iter().any(|name| name == folders[*at]);
    let exact = |at: &usize| is(at, &policy.names.test_folders);
    let worded = |at: &usize| {
        folders[*at]
            .split(|c: char| !c.is_alphabetic())
            .any(|word| policy.test_words.iter().any(|test| test.eq_ignore_ascii_case(word)))
    };
    let is_free = |at: &usize| !solution.iter().any(|path| is_at_or_below(&up_to(*at), path));
    let first = |is_tree: &dyn Fn(&usize) -> bool| (0..folders.len()).find(is_tree);
    first(&|at| exact(at) && is_free(at))
        .or_else(|| first(&|at| exact(at) && !is(at, &policy.helper_folders)))
        .or_else(|| first(&|at| worded(at) && is_free(at)))
        .map(up_to)
}

/// Whether a folder without a test-like name (`checks`, `qa`) looks like a test folder. The folder
/// must not contain the solution, nor a source file after which one of its tests is named. If it is
/// in a package of the solution, at least half of its files must be tests.
fn looks_like_tests(
    folder: &str,
    task_paths: &BTreeSet<String>,
    solution: &BTreeSet<String>,
    entries: &EntryMap,
) -> bool {
    if folder.is_empty() || solution.iter().any(|path| is_at_or_below(folder, path)) {
        return false;
    }
    let files = entries.keys().filter(|path| parent(path) == folder && path.ends_with(".py"));
    let files: BTreeSet<&str> = files
        .map(|path| &path[folder.len() + 1..])
        .filter(|name| !matches!(*name, "__init__.py" | "conftest.py"))
        .collect();
    let is_test =
        |name: &&str| is_test_file(name) || task_paths.contains(&format!("{folder}/{name}"));
    let (tests, others): (Vec<&str>, Vec<&str>) = files.into_iter().partition(is_test);
    let subject = |test: &&str| {
        let stem = test.strip_suffix(".py").unwrap_or(test);
        let stem = stem.strip_prefix("test_").unwrap_or(stem);
        format!("{}.py", stem.strip_suffix("_test").unwrap_or(stem))
    };
    if tests.iter().any(|test| others.contains(&subject(test).as_str())) {
        return false;
    }
    let is_package = |folder: &str| entries.contains_key(&format!("{folder}/__init__.py"));
    let in_solution = solution.iter().any(|path| {
        let mut top = parent(path);
        while is_package(top) && is_package(parent(top)) {
            top = parent(top);
        }
        !top.is_empty() && is_at_or_below(top, folder)
    });
    !in_solution || tests.len() >= others.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_trees(tests: &[&str], solution: &[&str], paths: &[&str]) -> (Vec<String>, Vec<String>) {
        let task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": [], "test_command": []
        }))
        .unwrap();
        let set = |of: &[&str]| of.iter().map(|path| (*path).to_owned()).collect();
        let all = paths.iter().chain(tests).chain(solution);
        let names = all.map(|path| ((*path).to_owned(), EntryKind::File)).collect();
        let policy = Policy::get().unwrap();
        let (trees, beside) = find_test_folders(policy, &task, &set(tests), &set(solution), &names);
        (trees.into_iter().collect(), beside.into_iter().collect())
    }

    #[test]
    fn folder_with_a_test_name_is_a_test_folder_unless_it_contains_the_solution() {
        let source = ["pkg/core.py"];
        for (test, tree) in [
            ("pkg/tests/unit/test_a.py", "pkg/tests"),
            ("pkg/_tests/test_a.py", "pkg/_tests"),
            ("testsuite/deep/a.py", "testsuite"),
            ("unit-tests/test_a.py", "unit-tests"),
        ] {
            assert_eq!(find_trees(&[test], &source, &[]).0, [tree], "{test}");
        }
        let (trees, beside) = find_trees(&["test_runner/test_a.py"], &["test_runner/core.py"], &[]);
        assert!(trees.is_empty() && beside == ["test_runner"]);
    }

    #[test]
    fn package_of_test_helpers_may_contain_the_solution() {
        let shipped = ["pkg/testing/compare.py"];
        let (trees, _) = find_trees(&["pkg/testing/tests/test_a.py"], &shipped, &[]);
        assert_eq!(trees, ["pkg/testing/tests"]);
        let (trees, beside) = find_trees(&["pkg/testing/test_compare.py"], &shipped, &[]);
        assert!(trees.is_empty() && beside == ["pkg/testing"]);
        // Even if gold changes a helper in a `tests` folder, the folder counts as a test folder.
        let (trees, _) = find_trees(&["tests/test_a.py"], &["tests/helper.py", "pkg/a.py"], &[]);
        assert_eq!(trees, ["tests"]);
    }

    #[test]
    fn folder_without_a_test_name_must_look_like_tests() {
        let checks = ["checks/helper.py", "checks/more.py", "checks/data.json"];
        assert_eq!(find_trees(&["checks/test_a.py"], &["pkg/core.py"], &checks).0, ["checks"]);
        // The tests are in the same folder as the code that they test.
        let other =
            ["pkg/__init__.py", "pkg/other/__init__.py", "pkg/other/core.py", "pkg/other/b.py"];
        for test in
            ["pkg/other/test_core.py", "pkg/other/test_all.py", "pkg/test_x.py", "test_top.py"]
        {
            let (trees, beside) = find_trees(&[test], &["pkg/main.py"], &other);
            assert_eq!((trees.len(), beside), (0, vec![parent(test).to_owned()]), "{test}");
        }
        let qa = ["pkg/__init__.py", "pkg/qa/__init__.py", "pkg/qa/helper.py"];
        assert_eq!(find_trees(&["pkg/qa/test_a.py"], &["pkg/main.py"], &qa).0, ["pkg/qa"]);
    }
}
