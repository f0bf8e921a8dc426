//! Writes runs for unit tests.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use proctor_record::{GradingFiles, Journal, RunDir, TrialDir};
use proctor_types::{
    Arm, CONFIG_VERSION, Ending, Event, Outcome, RULES_VERSION, RUN_SCHEMA_VERSION, RunRecord,
    RunTask, Task, TrialId, Verdict,
};
use serde_json::json;

fn arm(name: &str) -> Arm {
    let arm: Arm = serde_json::from_value(json!({
        "id": "", "name": name, "scaffold": "tools", "model": null, "budget": {},
        "sandbox": { "kind": "native", "cpus": 1.0, "memory_mb": 512 }, "network": {},
        "prompts": null, "settings": { "of": name },
    }))
    .unwrap();
    arm.with_computed_id()
}

fn task(number: usize) -> RunTask {
    let task: Task = serde_json::from_value(json!({
        "schema_version": 1, "id": format!("task-{number:05}"), "statement": "do it",
        "environment": { "base": "host" }, "fail_to_pass": ["t.py::test_a"],
        "test_command": ["pytest"],
    }))
    .unwrap();
    RunTask {
        digest: task.digest(),
        task,
        base_dir: PathBuf::from("/"),
        source: None,
        host_bound: false,
    }
}

/// Writes the plan of a run. No trial has started.
pub fn write_plan(path: &Path, arms: &[&str], tasks: usize, attempts: u32) -> RunRecord {
    let record = RunRecord {
        schema_version: RUN_SCHEMA_VERSION,
        rules: RULES_VERSION,
        proctor: env!("CARGO_PKG_VERSION").into(),
        created: 1,
        attempts,
        jobs: 1,
        arms: arms.iter().map(|name| arm(name)).collect(),
        tasks: (0..tasks).map(task).collect(),
        config_version: CONFIG_VERSION,
        config: serde_json::from_value(json!({})).unwrap(),
        host: json!({}),
        agent: String::new(),
        certificate: None,
        flaky: Default::default(),
        absent: BTreeSet::new(),
        changes: Vec::new(),
        selection: None,
    };
    RunDir::create(path).unwrap().write_run(&record).unwrap();
    record
}

/// Starts the first attempt of an arm at a task.
pub fn start_trial(path: &Path, task: &RunTask, arm: &Arm) -> (TrialId, TrialDir, Journal) {
    let run = RunDir::open_read_only(path).unwrap();
    let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt: 1 };
    let dir = run.create_trial_dir(&id).unwrap();
    let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
    let started =
        Event::TrialStarted { task: id.task.clone(), arm: id.arm.to_string(), attempt: 1 };
    journal.append(0, started).unwrap();
    (id, dir, journal)
}

/// Ends and grades the first attempt of an arm at a task.
pub fn finish_trial(path: &Path, task: &RunTask, arm: &Arm, resolved: bool) {
    let (id, dir, mut journal) = start_trial(path, task, arm);
    let run = RunDir::open_read_only(path).unwrap();
    let patch = b"diff --git a/a.py b/a.py\n";
    let blobs = run.trial_blobs(&dir);
    let hash = blobs.put(patch).unwrap();
    let packed = blobs.pack_size();
    let collected = Event::PatchCollected { bytes: patch.len() as u64, files: 1, hash };
    journal.append(0, collected).unwrap();
    dir.write_patch(patch).unwrap();
    let outcome = Outcome::from_ending(1, Ending::Submitted);
    let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()), packed };
    journal.append(0, ended).unwrap();
    dir.write_outcome(&outcome).unwrap();
    let status = if resolved { "passed" } else { "failed" };
    let (passed, failed) =
        if resolved { (vec!["t.py::test_a"], vec![]) } else { (vec![], vec!["t.py::test_a"]) };
    let verdict: Verdict = serde_json::from_value(json!({
        "schema_version": 1, "task": id.task, "resolved": resolved,
        "passed_rate": f64::from(u8::from(resolved)),
        "fail_to_pass": { "passed": passed, "failed": failed },
        "pass_to_pass": { "passed": [], "failed": [] },
        "tests": { "t.py::test_a": status }, "policies": {}, "integrity": "clean",
        "evidence": [],
    }))
    .unwrap();
    let grading = GradingFiles { patch, verdict: &verdict, log: b"", results: b"" };
    dir.store_grading(&id, grading).unwrap();
}
