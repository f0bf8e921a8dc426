//! Classifies the paths in a work directory by whether the model may change them.

use std::collections::{BTreeMap, BTreeSet};

use proctor_sandbox_api::wire::EntryKind;
use proctor_types::{Task, matches_wildcard};

use crate::{
    paths::{escape_task_path, file_from_test_id, is_at_or_below, parent, relative_to},
    policy::Policy,
    probe::Probe,
    test_trees,
};

/// The reason why the model may not change a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardReason {
    /// A test, or a file that tests share.
    Test,
    /// Configuration of pytest.
    Config,
    /// A file that the interpreter loads automatically.
    SelfLoading,
    /// Compiled code, which is removed and never restored.
    Bytecode,
}

/// Classifies paths for one task. Paths are relative to the work directory.
#[derive(Debug)]
pub(crate) struct PathRules<'a> {
    policy: &'a Policy,
    /// The files of expected tests, hidden paths and paths of the test patch. Always restored.
    task_paths: BTreeSet<String>,
    /// Test folders.
    test_folders: BTreeSet<String>,
    /// Other folders that directly contain an expected test, such as a folder of source code or the
    /// work directory. In these folders, only files with test names are guarded.
    mixed_folders: BTreeSet<String>,
    /// Prefixes of Python installations below the work directory.
    prefixes: Vec<String>,
    /// Paths that the mask changes, or the gold patch if there is no mask. They are source code
    /// even below a test folder.
    masked_paths: BTreeSet<String>,
    /// Whether tests are recognized by file name only, because the task's ids come from a report.
    is_name_based: bool,
}

impl<'a> PathRules<'a> {
    /// Creates the rules for a task whose test results are a report.
    pub(crate) fn for_report_task(
        policy: &'a Policy,
        task: &Task,
        masked_paths: BTreeSet<String>,
        test_patch_paths: &BTreeSet<String>,
    ) -> Self {
        let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        let files = ids
            .filter(|_| task.test_ids_start_with_file())
            .map(|id| escape_task_path(file_from_test_id(id)));
        let task_paths: BTreeSet<String> = files
            // The model may change a source file even if it contains its own tests.
            .filter(|path| task.mask.is_some() || !masked_paths.contains(path))
            .chain(task.hidden.iter().map(|path| escape_task_path(path.trim_end_matches('/'))))
            .chain(test_patch_paths.iter().cloned())
            .collect();
        let (test_folders, mixed_folders, prefixes) =
            (BTreeSet::new(), BTreeSet::new(), Vec::new());
        Self {
            policy,
            task_paths,
            test_folders,
            mixed_folders,
            prefixes,
            masked_paths,
            is_name_based: true,
        }
    }

    pub(crate) fn new(
        policy: &'a Policy,
        task: &Task,
        probe: &Probe,
        masked_paths: BTreeSet<String>,
        test_patch_paths: &BTreeSet<String>,
        entries: &BTreeMap<String, EntryKind>,
    ) -> Self {
        let ids = task.fail_to_pass.iter().chain(&task.pass_to_pass);
        let task_paths: BTreeSet<String> = ids
            .map(|id| escape_task_path(file_from_test_id(id)))
            .chain(task.hidden.iter().map(|path| escape_task_path(path.trim_end_matches('/'))))
            .chain(test_patch_paths.iter().cloned())
            .chain(config_file_option(&task.test_command))
            // The model may change a source file even if it contains doctests.
            .filter(|path| {
                task.mask.is_some()
                    || test_patch_paths.contains(path)
                    || !masked_paths.contains(path)
            })
            .collect();
        let (test_folders, mixed_folders) =
            test_trees::find_test_folders(policy, task, &task_paths, &masked_paths, entries);
        let prefixes =
            probe.prefixes.iter().filter_map(|prefix| relative_to(&task.workdir, prefix)).collect();
        Self {
            policy,
            task_paths,
            test_folders,
            mixed_folders,
            prefixes,
            masked_paths,
            is_name_based: false,
        }
    }

    /// Why a path is guarded; `None` if the model may change it.
    pub(crate) fn guard_reason(&self, path: &str) -> Option<GuardReason> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if self.is_name_based {
            return self.guard_reason_by_name(path, name);
        }
        let ends =
            |suffixes: &[String]| suffixes.iter().any(|suffix| name.ends_with(suffix.as_str()));
        let policy = self.policy;
        let bytecode = ends(&policy.bytecode_suffixes)
            || path
                .split('/')
                .any(|part| policy.bytecode_folders.iter().any(|folder| folder == part));
        if bytecode {
            return Some(GuardReason::Bytecode);
        }
        if self.is_self_loading(path, name) {
            return Some(GuardReason::SelfLoading);
        }
        if policy.names.config_files.iter().any(|config| config == name) {
            return Some(GuardReason::Config);
        }
        let shared = self.test_folders.iter().any(|tree| is_at_or_below(tree, path))
            && !self.masked_paths.contains(path);
        let beside = self.mixed_folders.contains(parent(path))
            && test_trees::is_test_file(name)
            && !self.masked_paths.contains(path);
        (self.is_task_path(path) || shared || beside).then_some(GuardReason::Test)
    }

    fn guard_reason_by_name(&self, path: &str, name: &str) -> Option<GuardReason> {
        if self.is_task_path(path) {
            return Some(GuardReason::Test);
        }
        if self.masked_paths.contains(path) {
            return None;
        }
        let names = &self.policy.report;
        let fits =
            |patterns: &[String]| patterns.iter().any(|pattern| matches_wildcard(pattern, name));
        if fits(&names.config_files) {
            return Some(GuardReason::Config);
        }
        let mut folders = parent(path).split('/');
        let is_below = folders.any(|folder| names.test_folders.iter().any(|known| known == folder));
        (is_below || fits(&names.test_files)).then_some(GuardReason::Test)
    }

    /// Whether the test run is forbidden to change the file at `path` if it already exists. This
    /// applies to guarded files and to files in the same folder as an expected test.
    pub(crate) fn is_watched(&self, path: &str) -> bool {
        !matches!(self.guard_reason(path), None | Some(GuardReason::Bytecode))
            || self.mixed_folders.contains(parent(path))
    }

    /// Whether a path is in a test folder.
    pub(crate) fn is_in_test_folder(&self, path: &str) -> bool {
        self.test_folders.iter().any(|tree| is_at_or_below(tree, path))
            || self.mixed_folders.contains(parent(path))
            || self.is_task_path(path)
            || (self.guard_reason(path) == Some(GuardReason::Bytecode)
                && self.mixed_folders.contains(parent(parent(path))))
    }

    /// Whether a folder directly contains watched files or a test folder.
    pub(crate) fn contains_watched_entry(&self, folder: &str) -> bool {
        self.mixed_folders.contains(folder)
            || self
                .test_folders
                .iter()
                .any(|tree| is_at_or_below(tree, folder) || parent(tree) == folder)
    }

    /// Whether a path is an expected test's file, is hidden, or belongs to the test patch.
    pub(crate) fn is_task_path(&self, path: &str) -> bool {
        self.task_paths.iter().any(|own| is_at_or_below(own, path))
    }

    /// Whether a test folder is below this folder.
    pub(crate) fn contains_test_folder(&self, folder: &str) -> bool {
        self.test_folders.iter().chain(&self.mixed_folders).any(|tree| is_at_or_below(folder, tree))
    }

    /// Whether the mask removes or changes a path.
    pub(crate) fn is_masked(&self, path: &str) -> bool {
        self.masked_paths.contains(path)
    }

    /// Whether a path belongs to an interpreter in the work directory.
    pub(crate) fn is_interpreter(&self, path: &str) -> bool {
        self.prefixes.iter().any(|prefix| is_at_or_below(prefix, path))
    }

    fn is_self_loading(&self, path: &str, name: &str) -> bool {
        let policy = self.policy;
        policy.self_loading_files.iter().any(|file| file == name)
            || policy.self_loading_suffixes.iter().any(|suffix| name.ends_with(suffix.as_str()))
            || path.split('/').any(|part| {
                policy
                    .self_loading_folder_suffixes
                    .iter()
                    .any(|suffix| part.ends_with(suffix.as_str()))
            })
            || self.is_interpreter(path)
    }
}

/// Returns the pytest configuration file that an option of the test command sets.
fn config_file_option(test_command: &[String]) -> Option<String> {
    let named = test_command.iter().enumerate().find_map(|(at, argument)| match &**argument {
        "-c" | "--config-file" => test_command.get(at + 1).map(String::as_str),
        other => other.strip_prefix("--config-file="),
    });
    named.filter(|path| !path.starts_with('/')).map(escape_task_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_reason_matches_tests_of_other_runners_by_file_name() {
        let task = |format: &str, id: &str| -> Task {
            serde_json::from_value(serde_json::json!({
                "schema_version": 1, "id": "t", "statement": "", "environment": {}, "hidden": ["checks/"],
                "fail_to_pass": [id], "test_command": ["x"], "test_results": {"format": format}
            }))
            .unwrap()
        };
        let guard = |task: &Task, path: &str| {
            let masked = BTreeSet::from(["tests/util.rs".to_owned()]);
            PathRules::for_report_task(Policy::get().unwrap(), task, masked, &BTreeSet::new())
                .guard_reason(path)
        };
        // `calc` is both a crate and a source folder.
        let cargo = task("libtest", "calc::tests::adds");
        for (path, expected) in [
            ("calc/src/lib.rs", None),
            ("tests/whole.rs", Some(GuardReason::Test)),
            // This file contains the solution.
            ("tests/util.rs", None),
            ("checks/a.sh", Some(GuardReason::Test)),
            ("pkg/sum_test.go", Some(GuardReason::Test)),
            ("web/src/__tests__/a.js", Some(GuardReason::Test)),
            ("web/a.spec.ts", Some(GuardReason::Test)),
            ("web/jest.config.mjs", Some(GuardReason::Config)),
            ("package.json", None),
            ("latest.js", None),
        ] {
            assert_eq!(guard(&cargo, path), expected, "{path}");
        }
        let jest = task("jest", "verify/sum.js::adds");
        assert_eq!(guard(&jest, "verify/sum.js"), Some(GuardReason::Test));
        assert_eq!(guard(&task("junit", "verify/sum.js::adds"), "verify/sum.js"), None);
    }

    fn task() -> Task {
        serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": ["pkg/tests/unit/test_a.py::T::test_x[a::b]"],
            "pass_to_pass": ["test_top.py::test_y", "checks/test_z.py::test_z"], "hidden": ["data/secret"],
            "test_command": ["python", "-m", "pytest"]
        }))
        .unwrap()
    }

    #[test]
    fn guard_reason_covers_tests_configuration_and_self_loading_files() {
        let probe = Probe { prefixes: vec!["/testbed/.venv".into()], ..Probe::default() };
        let masked = BTreeSet::from(["pkg/tests/source.py".to_owned()]);
        let policy = Policy::get().unwrap();
        let names = ["test_top.py", "checks/test_z.py", "checks/helper.py", "pkg/other/core.py"];
        let names = names.map(|name| (name.to_owned(), EntryKind::File)).into();
        let paths = PathRules::new(policy, &task(), &probe, masked, &BTreeSet::new(), &names);
        for (path, guard) in [
            ("pkg/tests/unit/test_a.py", Some(GuardReason::Test)),
            ("pkg/tests/shared.py", Some(GuardReason::Test)),
            ("pkg/tests/source.py", None),
            ("test_top.py", Some(GuardReason::Test)),
            // A test file next to an expected one is guarded, because tests import each other.
            ("test_other.py", Some(GuardReason::Test)),
            ("setup.py", None),
            ("checks/helper.py", Some(GuardReason::Test)),
            ("checks/data/new.json", Some(GuardReason::Test)),
            ("data/secret/x", Some(GuardReason::Test)),
            ("conftest.py", Some(GuardReason::Config)),
            ("docs/conftest.py", Some(GuardReason::Config)),
            ("a/pytest.ini", Some(GuardReason::Config)),
            ("src/sitecustomize.py", Some(GuardReason::SelfLoading)),
            ("x.pth", Some(GuardReason::SelfLoading)),
            ("evil-1.dist-info/entry_points.txt", Some(GuardReason::SelfLoading)),
            (".venv/lib/a.py", Some(GuardReason::SelfLoading)),
            ("pkg/__pycache__/a.cpython-311.pyc", Some(GuardReason::Bytecode)),
            ("pkg/core.py", None),
            ("pkg/testsuite.py", None),
        ] {
            assert_eq!(paths.guard_reason(path), guard, "{path}");
        }
    }
}
