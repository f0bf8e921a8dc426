//! Holes of FeatureBench 0.2.3, numbered as in docs/concepts/policies.md.

use proctor_grade::{ExternalLog, grade_log};
use proctor_official::FileRun;
use proctor_types::{Task, Verdict};
use serde_json::json;

use super::bench::{pytest_session_log, resolved_by_policy, task};

const FILE: &str = "tests/test_a.py";

fn featurebench_task(p2p: &[&str]) -> Task {
    task("featurebench", json!({"log_parser": "default"}), &[FILE], p2p)
}

fn file_run(file: &str, log: &str, exit_status: i32) -> FileRun {
    FileRun { file: file.to_owned(), log: log.as_bytes().to_vec(), exit_status: Some(exit_status) }
}

fn grade_files(f2p: FileRun, p2p: Vec<FileRun>) -> Verdict {
    let files: Vec<&str> = p2p.iter().map(|run| run.file.as_str()).collect();
    let task = featurebench_task(&files);
    grade_log(&task, &ExternalLog::Files { fail_to_pass: f2p, pass_to_pass: p2p }).unwrap()
}

#[test]
fn honest_file_is_resolved_by_both_policies() {
    let log = pytest_session_log("", &["PASSED tests/test_a.py::test_one"], "1 passed");
    let verdict = grade_files(file_run(FILE, &log, 0), vec![file_run("tests/test_b.py", &log, 0)]);
    assert_eq!((resolved_by_policy(&verdict), verdict.passed_rate), ((true, true), 1.0));
    let verdict = grade_files(file_run(FILE, &log, 0), vec![file_run("tests/test_b.py", &log, 1)]);
    assert_eq!(resolved_by_policy(&verdict), (false, false));
}

/// Holes 13 and 17: only an exit status of zero counts, so a process that exits early passes.
#[test]
fn zero_exit_status_without_results_resolves_only_officially() {
    let verdict = grade_files(file_run(FILE, "", 0), Vec::new());
    assert_eq!((resolved_by_policy(&verdict), verdict.passed_rate), ((true, false), 0.0));
}

/// Hole 15: skipped tests are not counted. A file in which all tests are skipped is resolved at
/// rate 0, and skips raise the rate of the other tests.
#[test]
fn official_policy_ignores_skipped_tests() {
    let skipped = pytest_session_log("", &["SKIPPED [40] tests/test_a.py:3: why"], "40 skipped");
    let verdict = grade_files(file_run(FILE, &skipped, 0), Vec::new());
    assert_eq!((resolved_by_policy(&verdict), verdict.passed_rate), ((true, false), 0.0));
    let some = pytest_session_log(
        "",
        &["PASSED tests/test_a.py::test_one", "SKIPPED [9] tests/test_a.py:3: why"],
        "1 passed, 9 skipped",
    );
    let verdict = grade_files(file_run(FILE, &some, 0), Vec::new());
    assert_eq!((resolved_by_policy(&verdict), verdict.passed_rate), ((true, false), 1.0));
}

/// Hole 16: the first summary counts, even if the graded code printed it.
#[test]
fn official_policy_reads_a_printed_summary_instead_of_the_real_one() {
    let printed =
        "=== short test summary info ===\nPASSED forged::a\nPASSED forged::b\n=== x ===\n";
    let log = pytest_session_log(printed, &["FAILED tests/test_a.py::test_one - x"], "1 failed");
    let verdict = grade_files(file_run(FILE, &log, 1), Vec::new());
    assert_eq!((resolved_by_policy(&verdict), verdict.passed_rate), ((false, false), 1.0));
    assert!(verdict.tests.contains_key("forged::a"));
    assert!(verdict.policies["strict"].why.starts_with("0 of 1"), "{verdict:?}");
}

/// Hole 16: ids are truncated at a dash, so two tests become one.
#[test]
fn ids_with_dashes_are_merged() {
    let log = pytest_session_log(
        "",
        &["PASSED tests/test_a.py::t[a - b]", "FAILED tests/test_a.py::t[a - c] - x"],
        "1 failed, 1 passed",
    );
    let verdict = grade_files(file_run(FILE, &log, 1), Vec::new());
    assert_eq!(verdict.tests.len(), 1);
    assert_eq!(verdict.passed_rate, 0.0);
}

/// Hole 17: nothing checks that the exit status and the printed results agree.
#[test]
fn failed_file_with_zero_exit_status_resolves_only_officially() {
    let log = pytest_session_log("", &["FAILED tests/test_a.py::test_one - x"], "1 failed");
    let verdict = grade_files(file_run(FILE, &log, 0), Vec::new());
    assert_eq!((resolved_by_policy(&verdict), verdict.passed_rate), ((true, false), 0.0));
}

/// Hole 19: logs of regression files are stored by base name, so the second of two files with the
/// same name overwrites the first.
#[test]
fn regression_files_with_the_same_name_overwrite_each_other() {
    let log = |id: &str| pytest_session_log("", &[&format!("PASSED {id}")], "1 passed");
    let p2p = vec![
        file_run("tests/a/test_x.py", &log("tests/a/test_x.py::t"), 0),
        file_run("tests/b/test_x.py", &log("tests/b/test_x.py::t"), 0),
    ];
    let verdict = grade_files(file_run(FILE, &log("tests/test_a.py::t"), 0), p2p);
    assert_eq!(verdict.pass_to_pass.passed, ["tests/b/test_x.py::t"]);
    assert_eq!(resolved_by_policy(&verdict), (true, true));
}

/// An attempt's folder with the files that the harness writes.
#[test]
fn attempt_folder_is_graded_with_the_exit_statuses_in_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let passed = pytest_session_log("", &["PASSED tests/test_a.py::test_one"], "1 passed");
    write("test_output.txt", &passed);
    write("test_output_p2p_test_b.txt", &passed);
    write(
        "run_instance.log",
        "F2P test exit code: 0\nP2P test /testbed/tests/test_b.py exit code: 3\n",
    );
    let task = featurebench_task(&["tests/test_b.py"]);
    let given = ExternalLog::read(folder.path(), &task).unwrap();
    assert_eq!(resolved_by_policy(&grade_log(&task, &given).unwrap()), (false, false));
    // Without the harness's log, pytest's exit status is inferred from the counts.
    std::fs::remove_file(folder.path().join("run_instance.log")).unwrap();
    let given = ExternalLog::read(folder.path(), &task).unwrap();
    assert_eq!(resolved_by_policy(&grade_log(&task, &given).unwrap()), (true, true));
    // With the fail-to-pass log alone, the results of the regression files are unknown.
    let given = ExternalLog::read(&folder.path().join("test_output.txt"), &task).unwrap();
    assert_eq!(resolved_by_policy(&grade_log(&task, &given).unwrap()), (false, false));
}
