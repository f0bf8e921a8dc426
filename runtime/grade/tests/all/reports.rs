//! Tasks whose runner writes a report. Each verdict reflects the report of this run and is never
//! `clean`.

use std::fs;

use proctor_grade::{GradeOptions, Graded, check_gradable, grade};
use proctor_types::{Fault, Integrity, Task, TestStatus};
use serde_json::{Value, json};

use crate::bench::{Seen, diff, handle};

const BROKEN: &str = "add() { echo 0; }\n";
const SOLVED: &str = "add() { echo $(($1 + $2)); }\n";

/// One test that the solution fixes and one that always passes, as TAP on standard output.
const TAP: &str = ". ./calc.sh\necho 1..2\nif [ \"$(add 1 2)\" = 3 ]; then echo 'ok 1 - adds'; \
                   else echo 'not ok 1 - adds'; fi\necho 'ok 2 - kept'\n";
/// The same as JUnit, one file per class, with other output on standard output.
const JUNIT: &str = ". ./calc.sh\necho 'ok 1 - adds'\nmkdir -p out\nif [ \"$(add 1 2)\" != 3 ]; then fail='<failure/>'; fi\n\
                     echo \"<testsuite><testcase classname='Calc' name='adds'>$fail</testcase></testsuite>\" > out/TEST-a.xml\n\
                     echo \"<testsuite><testcase classname='Calc' name='kept'/></testsuite>\" > out/TEST-b.xml\n";

fn seen(script: &str, results: Value, patch: &str) -> Seen {
    Seen(graded(script, results, patch, &["sh", "tests/run.sh"]).unwrap())
}

fn graded(script: &str, results: Value, patch: &str, command: &[&str]) -> Result<Graded, Fault> {
    let place = tempfile::tempdir().unwrap();
    let workdir = place.path().join("testbed");
    fs::create_dir_all(workdir.join("tests")).unwrap();
    fs::create_dir_all(workdir.join("out")).unwrap();
    fs::write(workdir.join("calc.sh"), BROKEN).unwrap();
    fs::write(workdir.join("tests/run.sh"), script).unwrap();
    let seconds = if script.contains("sleep") { 2.0 } else { 60.0 };
    // An earlier run left a report that says what a patch would like to hear.
    let all = "<testsuite><testcase classname='Calc' name='adds'/><testcase classname='Calc' name='kept'/></testsuite>";
    fs::write(workdir.join("out/TEST-old.xml"), all).unwrap();
    let task: Task = serde_json::from_value(json!({
        "schema_version": 1, "id": "calc-1", "statement": "Add.", "environment": {"base": "host"},
        "workdir": workdir.to_str().unwrap(), "gold": diff("calc.sh", Some(BROKEN), Some(SOLVED)),
        "fail_to_pass": ["adds"], "pass_to_pass": ["kept"],
        "test_command": command, "test_results": results,
        "timeouts": {"grade_seconds": seconds}
    }))
    .unwrap();
    check_gradable(&task).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let handle = handle(place.path()).await;
        let graded = grade(&handle, &task, patch.as_bytes(), &GradeOptions::default()).await;
        let _ = handle.shutdown().await;
        graded
    })
}

fn solved() -> String {
    diff("calc.sh", Some(BROKEN), Some(SOLVED))
}

fn edit(text: &str) -> String {
    diff("calc.sh", Some(BROKEN), Some(text))
}

fn tap() -> Value {
    json!({"format": "tap"})
}

fn junit() -> Value {
    json!({"format": "junit", "path": "out/TEST-*.xml"})
}

fn evidence(seen: &Seen) -> Vec<&str> {
    seen.0.verdict.evidence.iter().map(|evidence| evidence.kind.as_str()).collect()
}

#[test]
fn gold_resolves_and_noop_and_a_wrong_patch_do_not() {
    let wrong = edit("add() { echo $(($1 - $2)); }\n");
    for (script, results) in [(TAP, tap()), (JUNIT, junit())] {
        for (patch, resolved) in [(solved(), true), (String::new(), false), (wrong.clone(), false)]
        {
            let seen = seen(script, results.clone(), &patch);
            assert_eq!(seen.resolved(), resolved, "{}", seen.tell());
            let adds = if resolved { TestStatus::Passed } else { TestStatus::Failed };
            assert_eq!((seen.status("adds"), seen.status("kept")), (adds, TestStatus::Passed));
            assert_eq!(seen.0.verdict.integrity, Integrity::Unverified, "{}", seen.tell());
            assert_eq!(evidence(&seen), ["read_from_report"], "{}", seen.tell());
        }
    }
}

#[test]
fn a_run_that_leaves_no_report_has_no_result() {
    // The reports of an earlier run and of the patch exist.
    let mut patch = edit("exit 0\n");
    patch.push_str(&diff(
        "out/TEST-x.xml",
        None,
        Some("<testsuite><testcase name='adds'/><testcase name='kept'/></testsuite>\n"),
    ));
    let seen_junit = seen(JUNIT, junit(), &patch);
    let whole_file = json!({"format": "junit", "path": "out/TEST-old.xml"});
    for seen in
        [seen_junit, seen(JUNIT, whole_file, &solved()), seen(TAP, tap(), &edit("exit 0\n"))]
    {
        assert!(!seen.resolved(), "{}", seen.tell());
        assert_eq!(seen.status("adds"), TestStatus::Missing, "{}", seen.tell());
        assert_eq!(seen.status("kept"), TestStatus::Missing);
    }
}

#[test]
fn a_report_that_is_no_file_is_not_read() {
    // A link to a file that the run does not write.
    let script = "echo '<testsuite><testcase name=\"adds\"/><testcase name=\"kept\"/></testsuite>' > /dev/null\n\
                  ln -s ../tests/good.xml out/TEST-a.xml\n";
    let seen = seen(script, junit(), "");
    assert!(!seen.resolved() && seen.has("ended_early"), "{}", seen.tell());
    assert_eq!(seen.status("adds"), TestStatus::Missing);
}

#[test]
fn a_run_that_is_cut_off_is_not_resolved_by_what_it_said_before() {
    let killed = format!("{TAP}kill -9 $$\n");
    let seen_killed = seen(&killed, tap(), &solved());
    assert!(!seen_killed.resolved() && seen_killed.has("ended_early"), "{}", seen_killed.tell());
    // The plan says that one test is missing.
    let short = TAP.replace("1..2", "1..3");
    let short = seen(&short, tap(), &solved());
    assert_eq!((short.status("adds"), short.resolved()), (TestStatus::Passed, false));
    let hangs = format!("{TAP}sleep 600\n");
    let hangs = seen(&hangs, tap(), &solved());
    assert!(!hangs.resolved() && hangs.has("timed_out"), "{}", hangs.tell());
}

#[test]
fn a_runner_may_fail_for_another_reason_than_its_tests() {
    let seen = seen(&format!("{TAP}exit 3\n"), tap(), &solved());
    assert!(seen.resolved(), "{}", seen.tell());
    assert_eq!(evidence(&seen), ["read_from_report", "read_from_report"]);
}

#[test]
fn a_report_that_contradicts_itself_is_suspect() {
    let script = "echo \"<testsuite failures='1'><testcase name='adds'/><testcase name='kept'/></testsuite>\"\n";
    let seen = seen(script, json!({"format": "junit"}), &solved());
    assert!(!seen.resolved() && seen.suspect() && seen.has("log_doubted"), "{}", seen.tell());
}

#[test]
fn tests_are_restored_over_the_patch() {
    let forged = "echo 1..2\necho 'ok 1 - adds'\necho 'ok 2 - kept'\n";
    let seen = seen(TAP, tap(), &diff("tests/run.sh", Some(TAP), Some(forged)));
    assert!(!seen.resolved() && seen.has("test_restored"), "{}", seen.tell());
    assert_eq!(seen.status("adds"), TestStatus::Failed);
}

/// As a build script does it: before the tests are read, and put back afterwards.
#[test]
fn tests_that_the_run_rewrites_count_for_nothing() {
    let rewrites = format!("{SOLVED}cp tests/run.sh tests/copy && mv tests/copy tests/run.sh\n");
    let seen = seen(TAP, tap(), &edit(&rewrites));
    assert!(!seen.resolved() && seen.suspect(), "{}", seen.tell());
    assert!(seen.has("changed_during_run"), "{}", seen.tell());
    assert_eq!(seen.status("adds"), TestStatus::Passed, "{}", seen.tell());
}

#[test]
fn a_patch_that_does_not_apply_is_rejected() {
    let seen = seen(TAP, tap(), &diff("nowhere.sh", Some("a\n"), Some("b\n")));
    assert!(!seen.resolved() && seen.has("patch_rejected"), "{}", seen.tell());
}

#[test]
fn a_runner_that_the_environment_lacks_is_a_fault_and_no_failure_of_the_patch() {
    let fault = graded(TAP, tap(), &solved(), &["no-such-runner"]).unwrap_err();
    assert!(fault.what.contains("\"no-such-runner\"") && fault.hint.is_some(), "{fault}");
    // A patch cannot remove the task's own script: it is restored as a test.
    let removed = diff("tests/run.sh", Some(TAP), None);
    let kept = graded(TAP, tap(), &removed, &["sh", "tests/run.sh"]).unwrap();
    assert!(!kept.verdict.resolved && kept.verdict.tests["kept"] == TestStatus::Passed);
}
