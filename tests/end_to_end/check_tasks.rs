//! Tests `run --check-tasks`, which runs gold and noop on a sample of the tasks before the first
//! trial.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    open_files::run_with_file_limit,
    resume::interrupt_twice,
    stage::{Stage, repository_root},
};

/// Returns the demo's own task. Its source code is in `source`.
fn demo_task(source: &Path) -> Value {
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] = source.to_str().unwrap().into();
    task
}

/// Writes a configuration with the given task and a single arm, `noop`.
fn write_config(stage: &Stage, task: &Value) -> PathBuf {
    let rows = stage.write_file("tasks.jsonl", &format!("{task}\n"));
    let text = format!("tasks = [{rows:?}]\n[[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n");
    stage.write_file("run.toml", &text)
}

fn run_args<'a>(config: &'a Path, out: &'a Path) -> [&'a str; 5] {
    ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap(), "--check-tasks"]
}

/// Runs with `--check-tasks`. Returns the messages on stderr and the run directory.
fn run(stage: &Stage, config: &Path, status: i32) -> (String, PathBuf) {
    let out = stage.path("run");
    let output = stage.run(run_args(config, &out), status);
    (String::from_utf8_lossy(&output.stderr).into_owned(), out)
}

#[test]
fn good_task_is_checked_and_runs() {
    let stage = Stage::new();
    let config =
        write_config(&stage, &demo_task(&repository_root().join("configs/tasks/numerals")));
    let (said, out) = run(&stage, &config, 0);
    assert!(said.contains(": gold resolves them, noop does not"), "{said}");
    assert!(out.join("run.json").exists());
}

#[test]
fn task_that_gold_does_not_resolve_stops_the_run() {
    let stage = Stage::new();
    let mut task = demo_task(&repository_root().join("configs/tasks/numerals"));
    task["fail_to_pass"].as_array_mut().unwrap().push("tests/test_roman.py::test_nowhere".into());
    let (said, out) = run(&stage, &write_config(&stage, &task), 2);
    assert!(said.contains("demo__roman-1: gold does not resolve it"), "{said}");
    assert!(!out.join("run.json").exists(), "no trial was planned");
}

/// The check computes how many open files its trials need before it starts any of them.
#[test]
fn check_rejects_trials_that_need_more_open_files_than_allowed() {
    let stage = Stage::new();
    let config =
        write_config(&stage, &demo_task(&repository_root().join("configs/tasks/numerals")));
    let out = stage.path("run");
    let output = run_with_file_limit(&stage, 64, &run_args(&config, &out));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("need more open files than the limit of 64"), "{said}");
    assert!(!out.join("run.json").exists(), "no trial was planned");
}

/// A second Ctrl-C closes the sandboxes of the check. The command exits with the status of an
/// interrupted run.
#[test]
fn interrupted_check_ends_with_status_130() {
    let stage = Stage::new();
    // The task's tests take longer than this test waits, so both signals arrive while they run.
    let source = stage.path("numerals");
    let numerals = repository_root().join("configs/tasks/numerals");
    let copied = Command::new("cp").arg("-r").args([&numerals, &source]).status();
    assert!(copied.unwrap().success());
    let slow = "import time\ntime.sleep(600)\n";
    fs::write(source.join("conftest.py"), slow).unwrap();
    let config = write_config(&stage, &demo_task(&source));
    let out = stage.path("run");
    interrupt_twice(&stage, &run_args(&config, &out), |said| {
        said.contains("submitted after 0 steps")
    });
    assert!(!out.join("run.json").exists(), "no trial was planned");
}
