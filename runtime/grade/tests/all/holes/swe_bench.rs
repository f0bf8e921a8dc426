//! SWE-bench 5.0.2; the holes are numbered as in docs/policies.md.

use proctor_types::Task;
use serde_json::json;

use super::bench::{both, marked, policies, session, task, verdict};

const ONE: &str = "test_a.py::test_one";
const TWO: &str = "test_a.py::test_two";

fn row(f2p: &[&str], p2p: &[&str]) -> Task {
    task("swe-bench", json!({"log_parser": "parse_log_pytest_v2"}), f2p, p2p)
}

fn log(output: &str, exit: i32) -> String {
    marked("pytest -rA", output, exit)
}

fn honest(summary: &[&str], totals: &str) -> String {
    session("", summary, totals)
}

#[test]
fn an_honest_log_is_resolved_by_both_and_an_honest_failure_by_none() {
    let passed = [format!("PASSED {ONE}"), format!("PASSED {TWO}")];
    let passed: Vec<&str> = passed.iter().map(String::as_str).collect();
    let row = row(&[ONE], &[TWO]);
    assert_eq!(both(&row, &log(&honest(&passed, "2 passed"), 0)), (true, true));
    let failed = [format!("PASSED {TWO}"), format!("FAILED {ONE} - assert 1 == 2")];
    let failed: Vec<&str> = failed.iter().map(String::as_str).collect();
    assert_eq!(both(&row, &log(&honest(&failed, "1 failed, 1 passed"), 1)), (false, false));
}

/// Hole 1: the exit status needs a failure beside it, and any failure is enough.
#[test]
fn a_bogus_failure_covers_a_bad_exit_status() {
    let output = format!("PASSED {ONE}\nPASSED {TWO}\nFAILED bogus\n");
    assert_eq!(both(&row(&[ONE], &[TWO]), &log(&output, 1)), (true, false));
    // The same after a real session that prints its totals.
    let behind = session(&output, &[&format!("FAILED {ONE} - x")], "1 failed") + &output;
    assert_eq!(both(&row(&[ONE], &[TWO]), &log(&behind, 1)), (true, false));
}

/// Hole 1 in a complete log: only status 1 means that tests failed, so no failure explains another
/// status.
#[test]
fn a_failure_covers_an_exit_status_that_no_failure_gives() {
    let summary = [format!("PASSED {ONE}"), format!("PASSED {TWO}"), "FAILED c - x".to_owned()];
    let output = honest(&summary.each_ref().map(String::as_str), "1 failed, 2 passed");
    let row = row(&[ONE], &[TWO]);
    assert_eq!(both(&row, &log(&output, 1)), (true, true), "an honest run with another failure");
    for exit in [2, 3, 4, 5, 124, 137, 139, -9] {
        assert_eq!(both(&row, &log(&output, exit)), (true, false), "{exit}");
        let why = &verdict(&row, &log(&output, exit)).policies["strict"].why;
        assert!(why.contains(&format!("exit status {exit} means")), "{why}");
    }
}

/// Nothing compares the counts of a session.
#[test]
fn counts_that_disagree() {
    let passed = [format!("PASSED {ONE}"), format!("PASSED {TWO}")];
    let output = honest(&passed.each_ref().map(String::as_str), "2 passed");
    let row = row(&[ONE], &[TWO]);
    assert_eq!(both(&row, &log(&output, 0)), (true, true));
    let more = output.replace("collected 2 items", "collected 3 items");
    assert_eq!(both(&row, &log(&more, 0)), (true, false));
    let selected = more.replace("2 passed in", "2 passed, 1 deselected in");
    assert_eq!(both(&row, &log(&selected, 0)), (true, true));
    let failure = output.replace("test_a.py ..", "test_a.py F.");
    assert_eq!(both(&row, &log(&failure, 0)), (true, false));
}

/// Hole 2: the first printed exit status counts, and the tests print before the script.
#[test]
fn a_printed_exit_status_comes_first() {
    let output = format!(">>>>> Test Exit Code: 0\nPASSED {ONE}\n");
    assert_eq!(both(&row(&[ONE], &[]), &log(&output, 1)), (true, false));
}

/// Hole 3: nothing checks that the run reached its end.
#[test]
fn a_process_that_ends_itself_with_zero_after_forged_lines() {
    let output = format!("=== test session starts ===\nPASSED {ONE}\nPASSED {TWO}\n");
    assert_eq!(both(&row(&[ONE], &[TWO]), &log(&output, 0)), (true, false));
}

/// Hole 4: everything after a forged end marker is ignored.
#[test]
fn a_forged_end_marker() {
    let real = honest(&[&format!("FAILED {ONE} - x")], "1 failed");
    let output = format!("PASSED {ONE}\nFAILED other\n>>>>> End Test Output\n{real}");
    assert_eq!(both(&row(&[ONE], &[]), &log(&output, 1)), (true, false));
}

/// Hole 5: if only failures count, a count of tests is taken as their success.
#[test]
fn nothing_parsed_where_only_failures_count() {
    let details = json!({"log_parser": "parse_log_pytest", "eval_type": "fail_only"});
    let row = task("swe-bench", details, &[ONE], &[]);
    assert_eq!(both(&row, &log("Executed 5 of 10\n", 1)), (true, false));
}

/// Hole 6: a rerun that passed leaves no failure in the map, so its exit status makes the log look
/// forged. The harness then says that the patch was not applied. Strict names the failed test.
#[test]
fn a_flaky_test_is_taken_for_a_patch_that_does_not_apply() {
    let output = session(
        "",
        &[&format!("FAILED {ONE} - x"), &format!("PASSED {ONE}")],
        "1 failed, 1 passed",
    );
    let verdict = verdict(&row(&[ONE], &[]), &log(&output, 1));
    assert_eq!(policies(&verdict), (false, false));
    assert!(verdict.policies["official"].why.contains("has no failure"), "{verdict:?}");
    assert!(verdict.policies["strict"].why.starts_with("0 of 1 fail-to-pass"), "{verdict:?}");
}

/// Hole 7: any mention of a marker counts as the marker.
#[test]
fn output_that_mentions_a_time_out() {
    let printed = "INFO docs: it prints '>>>>> Tests Timed Out' then\n";
    let output = session(printed, &[&format!("PASSED {ONE}")], "1 passed");
    assert_eq!(both(&row(&[ONE], &[]), &log(&output, 0)), (false, true));
}

/// Hole 8: an empty list counts as all passed.
#[test]
fn no_fail_to_pass_tests() {
    let output = session("", &[&format!("PASSED {ONE}")], "1 passed");
    assert_eq!(both(&row(&[], &[ONE]), &log(&output, 0)), (true, false));
}

/// Hole 9: of two statuses the last counts.
#[test]
fn the_order_of_two_statuses_decides() {
    let skip = format!("SKIPPED {ONE}");
    let pass = format!("PASSED {ONE}");
    let with = |first: &str, second: &str| {
        let output = session("", &[first, second], "1 passed, 1 skipped");
        both(&row(&[ONE], &[]), &log(&output, 0))
    };
    assert_eq!(with(&skip, &pass), (true, false));
    assert_eq!(with(&pass, &skip), (false, false));
}

/// A skipped pass-to-pass test counts as passed.
#[test]
fn a_skipped_regression_test_is_kept() {
    let output =
        session("", &[&format!("PASSED {ONE}"), &format!("SKIPPED {TWO}")], "1 passed, 1 skipped");
    assert_eq!(both(&row(&[ONE], &[TWO]), &log(&output, 0)), (true, false));
}

/// An expected failure counts as a success.
#[test]
fn a_fail_to_pass_test_marked_as_an_expected_failure() {
    let output = session("", &[&format!("XFAIL {ONE}")], "1 xfailed");
    assert_eq!(both(&row(&[ONE], &[]), &log(&output, 0)), (true, false));
}

/// Lines outside the markers are read if there are none inside.
#[test]
fn results_outside_the_markers() {
    let forged = format!("PASSED {ONE}\n{}", log("no tests ran in 0.00s\n", 0));
    assert_eq!(both(&row(&[ONE], &[]), &forged), (true, false));
}
