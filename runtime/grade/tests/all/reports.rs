//! Tests tasks whose runner writes a report. Each verdict is based only on the report of the graded
//! run, and is never `clean`.

use std::fs;

use proctor_grade::{GradeOptions, GradingResult, check_gradable, grade};
use proctor_types::{Fault, Integrity, Task, TestStatus};
use serde_json::{Value, json};

use crate::bench::{GradedPatch, connect_agent, diff};

const BROKEN_CODE: &str = "add() { echo 0; }\n";
const SOLUTION_CODE: &str = "add() { echo $(($1 + $2)); }\n";

/// A test that the solution fixes and one that always passes, as TAP on standard output.
const TAP_SCRIPT: &str = ". ./calc.sh\necho 1..2\nif [ \"$(add 1 2)\" = 3 ]; then echo 'ok 1 - adds'; \
                   else echo 'not ok 1 - adds'; fi\necho 'ok 2 - kept'\n";
/// The same tests as JUnit XML with one file per class, and with other output on standard output.
const JUNIT_SCRIPT: &str = ". ./calc.sh\necho 'ok 1 - adds'\nmkdir -p out\nif [ \"$(add 1 2)\" != 3 ]; then fail='<failure/>'; fi\n\
                     echo \"<testsuite><testcase classname='Calc' name='adds'>$fail</testcase></testsuite>\" > out/TEST-a.xml\n\
                     echo \"<testsuite><testcase classname='Calc' name='kept'/></testsuite>\" > out/TEST-b.xml\n";

fn grade_script(script: &str, results: Value, patch: &str) -> GradedPatch {
    GradedPatch(try_grade_script(script, results, patch, &["sh", "tests/run.sh"]).unwrap())
}

fn try_grade_script(
    script: &str,
    results: Value,
    patch: &str,
    command: &[&str],
) -> Result<GradingResult, Fault> {
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    fs::create_dir_all(workdir.join("tests")).unwrap();
    fs::create_dir_all(workdir.join("out")).unwrap();
    fs::write(workdir.join("calc.sh"), BROKEN_CODE).unwrap();
    fs::write(workdir.join("tests/run.sh"), script).unwrap();
    let seconds = if script.contains("sleep") { 2.0 } else { 60.0 };
    // An earlier run left a report in which all tests passed.
    let all = "<testsuite><testcase classname='Calc' name='adds'/><testcase classname='Calc' name='kept'/></testsuite>";
    fs::write(workdir.join("out/TEST-old.xml"), all).unwrap();
    let task: Task = serde_json::from_value(json!({
        "schema_version": 1, "id": "calc-1", "statement": "Add.", "environment": {"base": "host"},
        "workdir": workdir.to_str().unwrap(), "gold": diff("calc.sh", Some(BROKEN_CODE), Some(SOLUTION_CODE)),
        "fail_to_pass": ["adds"], "pass_to_pass": ["kept"],
        "test_command": command, "test_results": results,
        "timeouts": {"grade_seconds": seconds}
    }))
    .unwrap();
    check_gradable(&task).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let handle = connect_agent(place.path()).await;
        let graded = grade(&handle, &task, patch.as_bytes(), &GradeOptions::default()).await;
        let _ = handle.shutdown().await;
        graded
    })
}

fn solution_patch() -> String {
    diff("calc.sh", Some(BROKEN_CODE), Some(SOLUTION_CODE))
}

fn calc_patch(text: &str) -> String {
    diff("calc.sh", Some(BROKEN_CODE), Some(text))
}

fn tap_results() -> Value {
    json!({"format": "tap"})
}

fn junit_results() -> Value {
    json!({"format": "junit", "path": "out/TEST-*.xml"})
}

fn evidence_kinds(graded_patch: &GradedPatch) -> Vec<&str> {
    graded_patch.0.verdict.evidence.iter().map(|evidence| evidence.kind.as_str()).collect()
}

#[test]
fn only_the_gold_patch_is_resolved() {
    let wrong = calc_patch("add() { echo $(($1 - $2)); }\n");
    for (script, results) in [(TAP_SCRIPT, tap_results()), (JUNIT_SCRIPT, junit_results())] {
        for (patch, resolved) in
            [(solution_patch(), true), (String::new(), false), (wrong.clone(), false)]
        {
            let seen = grade_script(script, results.clone(), &patch);
            assert_eq!(seen.is_resolved(), resolved, "{}", seen.details());
            let adds = if resolved { TestStatus::Passed } else { TestStatus::Failed };
            assert_eq!((seen.status("adds"), seen.status("kept")), (adds, TestStatus::Passed));
            assert_eq!(seen.0.verdict.integrity, Integrity::Unverified, "{}", seen.details());
            assert_eq!(evidence_kinds(&seen), ["read_from_report"], "{}", seen.details());
        }
    }
}

#[test]
fn run_without_a_report_has_no_results() {
    // Reports of an earlier run and from the patch exist.
    let mut patch = calc_patch("exit 0\n");
    patch.push_str(&diff(
        "out/TEST-x.xml",
        None,
        Some("<testsuite><testcase name='adds'/><testcase name='kept'/></testsuite>\n"),
    ));
    let seen_junit = grade_script(JUNIT_SCRIPT, junit_results(), &patch);
    let whole_file = json!({"format": "junit", "path": "out/TEST-old.xml"});
    for seen in [
        seen_junit,
        grade_script(JUNIT_SCRIPT, whole_file, &solution_patch()),
        grade_script(TAP_SCRIPT, tap_results(), &calc_patch("exit 0\n")),
    ] {
        assert!(!seen.is_resolved(), "{}", seen.details());
        assert_eq!(seen.status("adds"), TestStatus::Missing, "{}", seen.details());
        assert_eq!(seen.status("kept"), TestStatus::Missing);
    }
}

#[test]
fn report_that_is_not_a_regular_file_is_not_read() {
    // The report is a link to a file that the run does not write.
    let script = "echo '<testsuite><testcase name=\"adds\"/><testcase name=\"kept\"/></testsuite>' > /dev/null\n\
                  ln -s ../tests/good.xml out/TEST-a.xml\n";
    let seen = grade_script(script, junit_results(), "");
    assert!(!seen.is_resolved() && seen.has_evidence("ended_early"), "{}", seen.details());
    assert_eq!(seen.status("adds"), TestStatus::Missing);
}

#[test]
fn interrupted_run_is_not_resolved_by_earlier_results() {
    let killed = format!("{TAP_SCRIPT}kill -9 $$\n");
    let seen_killed = grade_script(&killed, tap_results(), &solution_patch());
    assert!(
        !seen_killed.is_resolved() && seen_killed.has_evidence("ended_early"),
        "{}",
        seen_killed.details()
    );
    // The TAP plan shows that one test is missing.
    let short = TAP_SCRIPT.replace("1..2", "1..3");
    let short = grade_script(&short, tap_results(), &solution_patch());
    assert_eq!((short.status("adds"), short.is_resolved()), (TestStatus::Passed, false));
    let hangs = format!("{TAP_SCRIPT}sleep 600\n");
    let hangs = grade_script(&hangs, tap_results(), &solution_patch());
    assert!(!hangs.is_resolved() && hangs.has_evidence("timed_out"), "{}", hangs.details());
}

#[test]
fn runner_failure_without_a_failed_test_is_resolved() {
    let seen = grade_script(&format!("{TAP_SCRIPT}exit 3\n"), tap_results(), &solution_patch());
    assert!(seen.is_resolved(), "{}", seen.details());
    assert_eq!(evidence_kinds(&seen), ["read_from_report", "read_from_report"]);
}

#[test]
fn contradictory_report_is_suspect() {
    let script = "echo \"<testsuite failures='1'><testcase name='adds'/><testcase name='kept'/></testsuite>\"\n";
    let seen = grade_script(script, json!({"format": "junit"}), &solution_patch());
    assert!(
        !seen.is_resolved() && seen.is_suspect() && seen.has_evidence("log_doubted"),
        "{}",
        seen.details()
    );
}

#[test]
fn tests_are_restored_over_the_patch() {
    let forged = "echo 1..2\necho 'ok 1 - adds'\necho 'ok 2 - kept'\n";
    let seen = grade_script(
        TAP_SCRIPT,
        tap_results(),
        &diff("tests/run.sh", Some(TAP_SCRIPT), Some(forged)),
    );
    assert!(!seen.is_resolved() && seen.has_evidence("test_restored"), "{}", seen.details());
    assert_eq!(seen.status("adds"), TestStatus::Failed);
}

/// The attack acts like a build script that rewrites the tests before they are read and restores
/// them afterwards.
#[test]
fn tests_rewritten_during_the_run_are_detected() {
    let rewrites =
        format!("{SOLUTION_CODE}cp tests/run.sh tests/copy && mv tests/copy tests/run.sh\n");
    let seen = grade_script(TAP_SCRIPT, tap_results(), &calc_patch(&rewrites));
    assert!(!seen.is_resolved() && seen.is_suspect(), "{}", seen.details());
    assert!(seen.has_evidence("changed_during_run"), "{}", seen.details());
    assert_eq!(seen.status("adds"), TestStatus::Passed, "{}", seen.details());
}

#[test]
fn patch_that_does_not_apply_is_rejected() {
    let seen =
        grade_script(TAP_SCRIPT, tap_results(), &diff("nowhere.sh", Some("a\n"), Some("b\n")));
    assert!(!seen.is_resolved() && seen.has_evidence("patch_rejected"), "{}", seen.details());
}

#[test]
fn missing_runner_is_a_fault_not_a_patch_failure() {
    let fault = try_grade_script(TAP_SCRIPT, tap_results(), &solution_patch(), &["no-such-runner"])
        .unwrap_err();
    assert!(fault.what.contains("\"no-such-runner\"") && fault.hint.is_some(), "{fault}");
    // A patch cannot remove the task's own script, because it is restored as a test.
    let removed = diff("tests/run.sh", Some(TAP_SCRIPT), None);
    let kept =
        try_grade_script(TAP_SCRIPT, tap_results(), &removed, &["sh", "tests/run.sh"]).unwrap();
    assert!(!kept.verdict.resolved && kept.verdict.tests["kept"] == TestStatus::Passed);
}
