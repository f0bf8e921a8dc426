//! Grades a log for a task with both policies.

use proctor_grade::{ExternalLog, grade_log};
use proctor_types::{Task, Verdict};
use serde_json::{Value, json};

/// A task of a benchmark with the given expected tests.
pub fn task(benchmark: &str, details: Value, f2p: &[&str], p2p: &[&str]) -> Task {
    serde_json::from_value(json!({
        "schema_version": 1, "id": "owner__name-1", "repo": "owner/name", "statement": "",
        "environment": {}, "fail_to_pass": f2p, "pass_to_pass": p2p, "test_command": [],
        "benchmark": {"name": benchmark, "details": details}
    }))
    .unwrap()
}

/// Returns whether `official` and `strict` resolve the task.
pub fn grade_with_both_policies(task: &Task, log: &str) -> (bool, bool) {
    resolved_by_policy(&verdict(task, log))
}

pub fn resolved_by_policy(verdict: &Verdict) -> (bool, bool) {
    let (official, strict) = (&verdict.policies["official"], &verdict.policies["strict"]);
    assert_eq!(verdict.resolved, official.resolved, "the top level repeats the official result");
    (official.resolved, strict.resolved)
}

pub fn verdict(task: &Task, log: &str) -> Verdict {
    grade_log(task, &ExternalLog::Whole(log.as_bytes().to_vec())).unwrap()
}

/// Output between the markers of an evaluation script, with the exit status that it prints.
pub fn with_markers(command: &str, output: &str, exit_status: i32) -> String {
    format!(
        "Applied patch test_a.py cleanly.\n+ : '>>>>> Start Test Output'\n+ {command} test_a.py\n\
         {output}+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: {exit_status}\n"
    )
}

/// A pytest run with `-rA`: the output of its tests and its short summary.
pub fn pytest_session_log(printed_text: &str, summary: &[&str], totals: &str) -> String {
    let counts =
        totals.split(", ").filter_map(|part| part.split(' ').next()?.parse::<usize>().ok());
    let collected: usize = counts.sum();
    format!(
        "============ test session starts ============\ncollected {collected} items\n\ntest_a.py ..\n\n\
         =========== PASSES ===========\n{printed_text}\
         ========= short test summary info ==========\n{}\n========== {totals} in 0.01s ==========\n",
        summary.join("\n")
    )
}
