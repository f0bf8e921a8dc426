//! Few open files are enough for many trials, and a plan that they are not enough for does not start.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use fake_llm::FakeLlm;
use serde_json::Value;

use crate::{
    scripted::script,
    stage::{Stage, cache, root},
};

/// The demo's task under as many made-up ids.
fn tasks(stage: &Stage, count: usize) -> PathBuf {
    let demo = std::fs::read_to_string(root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] = root().join("configs/tasks/numerals").to_str().unwrap().into();
    let lines: String = (0..count)
        .map(|number| {
            task["id"] = format!("demo__roman-{number}").into();
            format!("{task}\n")
        })
        .collect();
    stage.file("tasks.jsonl", &lines)
}

/// Runs `jobs` trials at once under a limit of `files` open files, soft and hard.
fn run(stage: &Stage, base_url: &str, jobs: usize, files: u64) -> Output {
    let config = stage.file(
        "run.toml",
        &format!(
            "tasks = [\"{}\"]\njobs = {jobs}\n\
             [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{base_url}\"\nname = \"fake\"\n",
            tasks(stage, jobs).display(),
        ),
    );
    Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {files} && exec \"$@\""))
        .args(["sh", env!("CARGO_BIN_EXE_proctor"), "run", config.to_str().unwrap(), "--out"])
        .arg(stage.path("run"))
        .current_dir(root())
        .env("HOME", stage.dir.path())
        .env("PROCTOR_CACHE", cache())
        .output()
        .unwrap()
}

#[test]
fn many_trials_at_once_need_few_open_files() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(&["sleep 2".to_owned()]))).unwrap();
    let stage = Stage::new();
    let output = run(&stage, &fake.base_url(), 44, 256);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = stage.report(&stage.path("run"));
    let arm = &report["arms"][0];
    assert_eq!((&arm["graded"], &arm["infrastructure_faults"]), (&44.into(), &0.into()), "{arm}");
    assert!(!said.contains("open files"), "{said}");
}

#[test]
fn a_plan_that_needs_more_open_files_than_there_are_does_not_start() {
    let stage = Stage::new();
    let output = run(&stage, "http://127.0.0.1:9/v1", 300, 512);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("jobs = 300") && said.contains("512"), "{said}");
    assert!(said.contains("set `jobs` to 133 or less") && said.contains("ulimit -n"), "{said}");
    assert!(!stage.path("run").exists(), "nothing has begun");
}
