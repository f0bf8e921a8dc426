//! Holes of FEA-Bench, which uses SWE-bench's harness 3.0.4, and of benchmarks derived from
//! SWE-bench.

use serde_json::json;

use super::bench::{grade_with_both_policies, pytest_session_log, task, with_markers};

const COMMAND: &str = "pytest --no-header -rA --tb=no -p no:cacheprovider";
const TEST_ONE: &str = "test_a.py::test_one";
const TEST_TWO: &str = "test_a.py::test_two";

/// A skip is neither success nor failure, and an empty list counts as all passed.
#[test]
fn task_with_only_skipped_tests_is_resolved() {
    let row = task("fea-bench", json!({}), &[TEST_ONE], &[TEST_TWO]);
    let output = pytest_session_log(
        "",
        &[&format!("SKIPPED {TEST_ONE}"), &format!("SKIPPED {TEST_TWO}")],
        "2 skipped",
    );
    assert_eq!(grade_with_both_policies(&row, &with_markers(COMMAND, &output, 0)), (true, false));
}

/// Ids are truncated at the first space, so two tests become one and the last result counts.
#[test]
fn ids_with_spaces_are_merged() {
    let row = task("fea-bench", json!({}), &["test_a.py::test_one[a"], &[]);
    let output = pytest_session_log(
        "",
        &["FAILED test_a.py::test_one[a b] - x", "PASSED test_a.py::test_one[a c]"],
        "1 failed, 1 passed",
    );
    assert_eq!(grade_with_both_policies(&row, &with_markers(COMMAND, &output, 1)), (true, false));
}

/// The log is read from the last mention of the test command, even if the graded code printed it.
#[test]
fn printed_test_command_hides_the_output_before_it() {
    let row = task("fea-bench", json!({}), &[TEST_ONE], &[]);
    let real = pytest_session_log("", &[&format!("FAILED {TEST_ONE} - x")], "1 failed");
    let output = format!("{real}$ {COMMAND}\nPASSED {TEST_ONE}\n");
    assert_eq!(grade_with_both_policies(&row, &with_markers(COMMAND, &output, 1)), (true, false));
}

/// The exit status is ignored.
#[test]
fn crash_after_forged_lines_resolves_only_officially() {
    let row = task("fea-bench", json!({}), &[TEST_ONE], &[]);
    let output = format!("PASSED {TEST_ONE}\nSegmentation fault\n");
    assert_eq!(grade_with_both_policies(&row, &with_markers(COMMAND, &output, 139)), (true, false));
}

/// The ids of sympy's tests are bare names, so a test hides one with the same name in another file.
#[test]
fn bare_names_in_two_files_are_merged() {
    let mut row = task("fea-bench", json!({"version": "1.10"}), &["test_basic"], &[]);
    row.repo = Some("sympy/sympy".into());
    let output = "======== test process starts ========\nsympy/core/tests/test_a.py[1]\ntest_basic E\n\
                  sympy/core/tests/test_b.py[1]\ntest_basic ok\n\
                  ===== tests finished: 1 passed, 1 exceptions, in 0.1 seconds =====\n";
    let log = with_markers("bin/test -C --verbose", output, 1);
    assert_eq!(grade_with_both_policies(&row, &log), (true, false));
}

/// SWE-bench-Live ignores missing tests.
#[test]
fn swe_bench_live_ignores_missing_tests() {
    let row =
        task("swe-bench-live", json!({"log_parser": "pytest"}), &[TEST_ONE, "gone"], &[TEST_TWO]);
    let output = pytest_session_log("", &[&format!("PASSED {TEST_ONE}")], "1 passed");
    assert_eq!(grade_with_both_policies(&row, &output), (true, false));
    let none = pytest_session_log("", &[&format!("SKIPPED {TEST_ONE}")], "1 skipped");
    assert_eq!(grade_with_both_policies(&row, &none), (false, false));
}

/// SWE-rebench reads only between the markers and trusts that part.
#[test]
fn swe_rebench_trusts_lines_between_the_markers() {
    let details = json!({"log_parser": "parse_log_pytest"});
    let row = task("swe-rebench", details, &[TEST_ONE], &[]);
    let log = with_markers("pytest -rA", &format!("PASSED {TEST_ONE}\n"), 1);
    assert_eq!(grade_with_both_policies(&row, &log), (true, false));
    assert_eq!(
        grade_with_both_policies(
            &row,
            &format!("PASSED {TEST_ONE}\n{}", with_markers("pytest", "", 1))
        ),
        (false, false)
    );
}

/// SWE-smith's verbose lines can be forged.
#[test]
fn swe_smith_reads_printed_lines() {
    let row = task("swe-smith", json!({}), &[TEST_ONE], &[]);
    let printed = format!("{TEST_ONE} PASSED\n");
    let output = pytest_session_log(&printed, &[&format!("ERROR {TEST_ONE} - x")], "1 error");
    assert_eq!(
        grade_with_both_policies(&row, &with_markers("pytest -v", &output, 1)),
        (true, false)
    );
}

/// SWE-Gym's fork treats skips as FEA-Bench does.
#[test]
fn swe_gym_resolves_skipped_tests() {
    let mut row = task("swe-gym", json!({}), &[TEST_ONE], &[]);
    row.repo = Some("Python/mypy".into());
    let output = pytest_session_log("", &[&format!("SKIPPED {TEST_ONE}")], "1 skipped");
    assert_eq!(
        grade_with_both_policies(&row, &with_markers("pytest -rA", &output, 0)),
        (true, false)
    );
}
