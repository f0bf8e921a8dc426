//! Which packages a repository owns, and which of its files are tests.

use std::collections::BTreeSet;

/// Returns the top-level names of Python code at the import roots. A directory counts if a module
/// is directly in it. `provided` are names of the environment or the language, which no repository
/// owns.
pub fn own_packages<'a>(
    paths: impl Iterator<Item = &'a String>,
    roots: &[String],
    provided: &BTreeSet<String>,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in paths.filter(|path| path.ends_with(".py")) {
        for root in roots {
            let below = match root.as_str() {
                "" => Some(path.as_str()),
                root => path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
            };
            let name = match below.map(|below| below.split_once('/')) {
                Some(Some((folder, _))) => folder.to_owned(),
                Some(None) => below.unwrap_or_default().trim_end_matches(".py").to_owned(),
                None => continue,
            };
            if !provided.contains(&name) && !is_test_name(&name) {
                names.insert(name);
            }
        }
    }
    names
}

/// Whether a top-level name is one of tests.
fn is_test_name(name: &str) -> bool {
    matches!(name, "test" | "tests" | "testing" | "conftest") || name.starts_with("test_")
}

/// Returns whether a path belongs to a test, judged by its name alone.
pub fn is_test_path(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".py");
    folders.split('/').any(|folder| matches!(folder, "test" | "tests" | "testing"))
        || is_test_name(stem)
        || stem.ends_with("_test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_owned_by_its_modules_and_not_by_its_folder() {
        let paths =
            ["numerals/__init__.py", "src/other/a.py", "docs/index.md", "one.py", "tests/a.py"]
                .map(str::to_owned);
        let roots = ["".to_owned(), "src".to_owned()];
        let names = own_packages(paths.iter(), &roots, &BTreeSet::new());
        let expected = ["numerals", "one", "other", "src"].map(str::to_owned);
        assert_eq!(names, BTreeSet::from(expected));
        let provided = BTreeSet::from(["numerals".to_owned()]);
        assert!(!own_packages(paths.iter(), &roots, &provided).contains("numerals"));
    }

    #[test]
    fn tests_are_known_by_their_names() {
        for path in ["tests/a.py", "src/pkg/test/a.py", "test_a.py", "a_test.py", "conftest.py"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["contest.py", "src/testament/a.py", "attest.py", "latest/a.py"] {
            assert!(!is_test_path(path), "{path}");
        }
    }
}
