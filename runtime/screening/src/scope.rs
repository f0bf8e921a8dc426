//! Determines a repository's own packages and its test files.

use std::collections::BTreeSet;

/// Returns the top-level names of the Python code below the import roots. `provided_modules`
/// contains names that belong to the environment or the language instead of the repository.
pub fn own_packages<'a>(
    paths: impl Iterator<Item = &'a String>,
    roots: &[String],
    provided_modules: &BTreeSet<String>,
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
            if !provided_modules.contains(&name) && !is_test_name(&name) {
                names.insert(name);
            }
        }
    }
    names
}

/// Whether a top-level name belongs to tests.
fn is_test_name(name: &str) -> bool {
    matches!(name, "test" | "tests" | "testing" | "conftest") || name.starts_with("test_")
}

/// Whether a path belongs to tests, judging only by its name.
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
    fn own_packages_excludes_provided_modules() {
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
    fn is_test_path_recognizes_test_names() {
        for path in ["tests/a.py", "src/pkg/test/a.py", "test_a.py", "a_test.py", "conftest.py"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["contest.py", "src/testament/a.py", "attest.py", "latest/a.py"] {
            assert!(!is_test_path(path), "{path}");
        }
    }
}
