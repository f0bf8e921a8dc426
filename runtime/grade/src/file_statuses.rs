//! Grades tasks whose expected ids are whole test files.

use std::collections::{BTreeMap, BTreeSet};

use proctor_patch::CurrentFile;
use proctor_types::{Task, TestStatus};

use crate::{
    FrozenIds,
    paths::{escape_task_path, file_from_test_id},
    pristine::PristineTree,
};

/// Adds the status of each file that the task expects to `tests`.
///
/// A file passes if at least one of its tests passed and none failed or is missing. Every test
/// function that passed on the unmasked source and still exists must have run. In a fail-to-pass
/// file, a test may only be skipped if it did not pass on the unmasked source.
pub(crate) fn add_file_statuses(
    task: &Task,
    frozen_ids: Option<&FrozenIds>,
    pristine: &PristineTree,
    tests: &mut BTreeMap<String, TestStatus>,
) {
    let passed_before = frozen_ids.map(|frozen| &frozen.fail_to_pass[..]).unwrap_or_default();
    let status = |file: &String, may_skip: bool| {
        let before: Vec<&String> =
            passed_before.iter().filter(|id| file_from_test_id(id) == file).collect();
        let of_file =
            || tests.iter().filter(|(id, _)| file_from_test_id(id) == file && id.contains("::"));
        let counts = |id: &String, status: TestStatus| {
            let skip = status == TestStatus::Skipped;
            !skip || (!may_skip && (before.is_empty() || before.contains(&id)))
        };
        let bad = [TestStatus::Failed, TestStatus::Error, TestStatus::Missing, TestStatus::Skipped];
        let found = bad.iter().find(|bad| of_file().any(|(id, is)| is == *bad && counts(id, *is)));
        let run: BTreeSet<&str> = of_file().map(|(id, _)| strip_parameters(id)).collect();
        let kept = function_names(file, pristine);
        let is_gone = before
            .iter()
            .map(|id| strip_parameters(id))
            .any(|was| kept.contains(was.rsplit("::").next().unwrap_or(was)) && !run.contains(was));
        let passed = of_file().any(|(_, status)| *status == TestStatus::Passed);
        let whole = if passed && !is_gone { TestStatus::Passed } else { TestStatus::Missing };
        found.copied().unwrap_or(whole)
    };
    let f2p = task.fail_to_pass.iter().map(|file| (file.clone(), status(file, false)));
    let p2p = task.pass_to_pass.iter().map(|file| (file.clone(), status(file, true)));
    let files: Vec<(String, TestStatus)> = f2p.chain(p2p).collect();
    tests.extend(files);
}

/// The id without the test's parameters.
fn strip_parameters(id: &str) -> &str {
    id.split('[').next().unwrap_or(id)
}

/// Returns the names of all functions, at any depth, in a file's pristine version.
fn function_names(file: &str, pristine: &PristineTree) -> BTreeSet<String> {
    let Some(CurrentFile::File { bytes, .. }) = pristine.files.get(&escape_task_path(file)) else {
        return BTreeSet::new();
    };
    let text = String::from_utf8_lossy(bytes);
    let name = |line: &str| {
        let line = line.trim_start();
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
        rest.split('(').next().map(|name| name.trim().to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use TestStatus::{Failed, Missing, Passed, Skipped};

    use super::*;

    fn file_status(earlier_passes: &[&str], statuses: &[(&str, TestStatus)]) -> TestStatus {
        let task: Task = serde_json::from_value(serde_json::json!({
            "schema_version": 1, "id": "t", "statement": "", "environment": {},
            "fail_to_pass": ["t.py"], "test_command": []
        }))
        .unwrap();
        let text = "def test_a():\n  pass\nclass T:\n  def test_b(self): pass\n";
        let mut pristine = PristineTree::default();
        let file = CurrentFile::File { bytes: text.into(), mode: 0o644 };
        pristine.files.insert("t.py".into(), file);
        let frozen = FrozenIds {
            fail_to_pass: earlier_passes.iter().map(|id| format!("t.py::{id}")).collect(),
            pass_to_pass: Vec::new(),
        };
        let mut tests =
            statuses.iter().map(|(id, status)| (format!("t.py::{id}"), *status)).collect();
        add_file_statuses(&task, Some(&frozen), &pristine, &mut tests);
        tests["t.py"]
    }

    #[test]
    fn file_passes_only_if_all_earlier_passed_tests_ran() {
        let before = ["test_a[1]", "T::test_b", "test_gone"];
        assert_eq!(file_status(&before, &[("test_a[2]", Passed), ("T::test_b", Passed)]), Passed);
        // The code under test prevented pytest from collecting the test.
        assert_eq!(file_status(&before, &[("test_a[1]", Passed)]), Missing);
        assert_eq!(file_status(&before, &[]), Missing);
        assert_eq!(file_status(&before, &[("test_a[1]", Passed), ("T::test_b", Skipped)]), Skipped);
        // The new test was also skipped before.
        let more = [("test_a[1]", Passed), ("T::test_b", Passed), ("test_new", Skipped)];
        assert_eq!(file_status(&before, &more), Passed);
        assert_eq!(file_status(&[], &more), Skipped, "no earlier results are known");
        let failed = [("test_a[1]", Passed), ("T::test_b", Passed), ("test_new", Failed)];
        assert_eq!(file_status(&before, &failed), Failed);
    }
}
