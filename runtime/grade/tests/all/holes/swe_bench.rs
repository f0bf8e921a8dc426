//! Holes of SWE-bench 5.0.2, numbered as in docs/concepts/policies.md.

use proctor_types::Task;
use serde_json::json;

use super::bench::{
    grade_with_both_policies, pytest_session_log, resolved_by_policy, task, verdict, with_markers,
};

const TEST_ONE: &str = "test_a.py::test_one";
const TEST_TWO: &str = "test_a.py::test_two";

fn swe_bench_task(f2p: &[&str], p2p: &[&str]) -> Task {
    task("swe-bench", json!({"log_parser": "parse_log_pytest_v2"}), f2p, p2p)
}

fn build_log(output: &str, exit_status: i32) -> String {
    with_markers("pytest -rA", output, exit_status)
}

fn honest_output(summary: &[&str], totals: &str) -> String {
    pytest_session_log("", summary, totals)
}

#[test]
fn honest_log_gets_the_same_result_from_both_policies() {
    let passed = [format!("PASSED {TEST_ONE}"), format!("PASSED {TEST_TWO}")];
    let passed: Vec<&str> = passed.iter().map(String::as_str).collect();
    let row = swe_bench_task(&[TEST_ONE], &[TEST_TWO]);
    assert_eq!(
        grade_with_both_policies(&row, &build_log(&honest_output(&passed, "2 passed"), 0)),
        (true, true)
    );
    let failed = [format!("PASSED {TEST_TWO}"), format!("FAILED {TEST_ONE} - assert 1 == 2")];
    let failed: Vec<&str> = failed.iter().map(String::as_str).collect();
    assert_eq!(
        grade_with_both_policies(
            &row,
            &build_log(&honest_output(&failed, "1 failed, 1 passed"), 1)
        ),
        (false, false)
    );
}

/// Hole 1: if the exit status is nonzero, the harness requires a failure in the log, but any
/// failure is enough.
#[test]
fn official_policy_accepts_a_bad_exit_status_after_a_bogus_failure() {
    let output = format!("PASSED {TEST_ONE}\nPASSED {TEST_TWO}\nFAILED bogus\n");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[TEST_TWO]), &build_log(&output, 1)),
        (true, false)
    );
    // The same output after a real session that prints its totals.
    let behind =
        pytest_session_log(&output, &[&format!("FAILED {TEST_ONE} - x")], "1 failed") + &output;
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[TEST_TWO]), &build_log(&behind, 1)),
        (true, false)
    );
}

/// Hole 1 with a complete log: only exit status 1 means that tests failed, so a failure does not
/// explain any other status.
#[test]
fn official_policy_accepts_any_exit_status_after_a_failure() {
    let summary =
        [format!("PASSED {TEST_ONE}"), format!("PASSED {TEST_TWO}"), "FAILED c - x".to_owned()];
    let output = honest_output(&summary.each_ref().map(String::as_str), "1 failed, 2 passed");
    let row = swe_bench_task(&[TEST_ONE], &[TEST_TWO]);
    assert_eq!(
        grade_with_both_policies(&row, &build_log(&output, 1)),
        (true, true),
        "an honest run with another failure"
    );
    for exit in [2, 3, 4, 5, 124, 137, 139, -9] {
        assert_eq!(
            grade_with_both_policies(&row, &build_log(&output, exit)),
            (true, false),
            "{exit}"
        );
        let why = &verdict(&row, &build_log(&output, exit)).policies["strict"].why;
        assert!(why.contains(&format!("exit status {exit} means")), "{why}");
    }
}

/// The harness does not check that a session's counts agree.
#[test]
fn contradictory_counts_resolve_only_under_the_official_policy() {
    let passed = [format!("PASSED {TEST_ONE}"), format!("PASSED {TEST_TWO}")];
    let output = honest_output(&passed.each_ref().map(String::as_str), "2 passed");
    let row = swe_bench_task(&[TEST_ONE], &[TEST_TWO]);
    assert_eq!(grade_with_both_policies(&row, &build_log(&output, 0)), (true, true));
    let more = output.replace("collected 2 items", "collected 3 items");
    assert_eq!(grade_with_both_policies(&row, &build_log(&more, 0)), (true, false));
    let selected = more.replace("2 passed in", "2 passed, 1 deselected in");
    assert_eq!(grade_with_both_policies(&row, &build_log(&selected, 0)), (true, true));
    let failure = output.replace("test_a.py ..", "test_a.py F.");
    assert_eq!(grade_with_both_policies(&row, &build_log(&failure, 0)), (true, false));
}

/// Hole 2: the first printed exit status counts, so the tests can print one before the script does.
#[test]
fn official_policy_uses_the_first_printed_exit_status() {
    let output = format!(">>>>> Test Exit Code: 0\nPASSED {TEST_ONE}\n");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[]), &build_log(&output, 1)),
        (true, false)
    );
}

/// Hole 3: nothing checks that the run ended properly.
#[test]
fn early_exit_after_forged_lines_resolves_only_officially() {
    let output = format!("=== test session starts ===\nPASSED {TEST_ONE}\nPASSED {TEST_TWO}\n");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[TEST_TWO]), &build_log(&output, 0)),
        (true, false)
    );
}

/// Hole 4: everything after a forged end marker is ignored.
#[test]
fn forged_end_marker_hides_real_results_from_the_official_policy() {
    let real = honest_output(&[&format!("FAILED {TEST_ONE} - x")], "1 failed");
    let output = format!("PASSED {TEST_ONE}\nFAILED other\n>>>>> End Test Output\n{real}");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[]), &build_log(&output, 1)),
        (true, false)
    );
}

/// Hole 5: in a `fail_only` task, a log without parsed results counts as success.
#[test]
fn log_without_results_resolves_a_fail_only_task_officially() {
    let details = json!({"log_parser": "parse_log_pytest", "eval_type": "fail_only"});
    let row = task("swe-bench", details, &[TEST_ONE], &[]);
    assert_eq!(grade_with_both_policies(&row, &build_log("Executed 5 of 10\n", 1)), (true, false));
}

/// Hole 6: if a rerun of a failed test passed, the harness finds no failure in the log. The nonzero
/// exit status then makes the log look forged, and the harness reports that the patch was not
/// applied. The strict policy reports the failed test.
#[test]
fn official_policy_reports_a_flaky_test_as_a_rejected_patch() {
    let output = pytest_session_log(
        "",
        &[&format!("FAILED {TEST_ONE} - x"), &format!("PASSED {TEST_ONE}")],
        "1 failed, 1 passed",
    );
    let verdict = verdict(&swe_bench_task(&[TEST_ONE], &[]), &build_log(&output, 1));
    assert_eq!(resolved_by_policy(&verdict), (false, false));
    assert!(verdict.policies["official"].why.contains("shows no failure"), "{verdict:?}");
    assert!(verdict.policies["strict"].why.starts_with("0 of 1 fail-to-pass"), "{verdict:?}");
}

/// Hole 7: any mention of a marker counts as the marker.
#[test]
fn printed_timeout_marker_fails_under_the_official_policy() {
    let printed = "INFO docs: it prints '>>>>> Tests Timed Out' then\n";
    let output = pytest_session_log(printed, &[&format!("PASSED {TEST_ONE}")], "1 passed");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[]), &build_log(&output, 0)),
        (false, true)
    );
}

/// Hole 8: an empty list counts as all passed.
#[test]
fn empty_fail_to_pass_list_resolves_only_officially() {
    let output = pytest_session_log("", &[&format!("PASSED {TEST_ONE}")], "1 passed");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[], &[TEST_ONE]), &build_log(&output, 0)),
        (true, false)
    );
}

/// Hole 9: the last of two statuses counts.
#[test]
fn official_policy_uses_the_last_of_two_statuses() {
    let skip = format!("SKIPPED {TEST_ONE}");
    let pass = format!("PASSED {TEST_ONE}");
    let with = |first: &str, second: &str| {
        let output = pytest_session_log("", &[first, second], "1 passed, 1 skipped");
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[]), &build_log(&output, 0))
    };
    assert_eq!(with(&skip, &pass), (true, false));
    assert_eq!(with(&pass, &skip), (false, false));
}

/// A skipped pass-to-pass test counts as passed.
#[test]
fn skipped_regression_test_passes_only_officially() {
    let output = pytest_session_log(
        "",
        &[&format!("PASSED {TEST_ONE}"), &format!("SKIPPED {TEST_TWO}")],
        "1 passed, 1 skipped",
    );
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[TEST_TWO]), &build_log(&output, 0)),
        (true, false)
    );
}

/// An expected failure counts as a success.
#[test]
fn expected_failure_passes_only_officially() {
    let output = pytest_session_log("", &[&format!("XFAIL {TEST_ONE}")], "1 xfailed");
    assert_eq!(
        grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[]), &build_log(&output, 0)),
        (true, false)
    );
}

/// Lines outside the markers are read if there are none inside.
#[test]
fn only_the_official_policy_counts_results_outside_the_markers() {
    let forged = format!("PASSED {TEST_ONE}\n{}", build_log("no tests ran in 0.00s\n", 0));
    assert_eq!(grade_with_both_policies(&swe_bench_task(&[TEST_ONE], &[]), &forged), (true, false));
}
