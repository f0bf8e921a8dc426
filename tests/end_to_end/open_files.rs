//! Tests that many trials need only a few open files, and that a plan that needs more than the
//! limit does not start.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use fake_llm::FakeLlm;
use serde_json::Value;

use crate::{
    resume::wait_for,
    scripted_trial::script,
    stage::{Stage, cache_folder, repository_root},
    tier::is_full,
};

/// Writes `count` copies of the demo's task with different ids.
fn write_tasks(stage: &Stage, count: usize) -> PathBuf {
    let demo = std::fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    let lines: String = (0..count)
        .map(|number| {
            task["id"] = format!("demo__roman-{number}").into();
            format!("{task}\n")
        })
        .collect();
    stage.write_file("tasks.jsonl", &lines)
}

/// Writes a configuration that runs `jobs` trials at the same time.
fn write_config(stage: &Stage, base_url: &str, jobs: usize) -> PathBuf {
    stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"{}\"]\njobs = {jobs}\n\
             [[arms]]\nname = \"scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{base_url}\"\nname = \"fake\"\n",
            write_tasks(stage, jobs).display(),
        ),
    )
}

/// Runs `jobs` trials at the same time, with a limit of `files` open files.
fn run_trials_with_file_limit(stage: &Stage, base_url: &str, jobs: usize, files: u64) -> Output {
    let config = write_config(stage, base_url, jobs);
    let out = stage.path("run");
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    run_with_file_limit(stage, files, &args)
}

/// Runs Proctor with a limit of `files` open files (both the soft and the hard limit).
pub fn run_with_file_limit(stage: &Stage, files: u64, args: &[&str]) -> Output {
    Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {files} && exec \"$@\""))
        .args(["sh", env!("CARGO_BIN_EXE_proctor")])
        .args(args)
        .current_dir(repository_root())
        .env("HOME", stage.dir.path())
        .env("PROCTOR_CACHE", cache_folder())
        .output()
        .unwrap()
}

#[test]
fn many_trials_at_once_need_few_open_files() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(&["sleep 2".to_owned()]))).unwrap();
    let stage = Stage::new();
    let output = run_trials_with_file_limit(&stage, &fake.base_url(), 36, 256);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = stage.report(&stage.path("run"));
    let arm = &report["arms"][0];
    assert_eq!((&arm["graded"], &arm["infrastructure_faults"]), (&36.into(), &0.into()), "{arm}");
    assert!(!said.contains("open files"), "{said}");
}

/// The number of open files per trial in `configs/tables/open-files.toml` must be the number that the
/// runtime really keeps open.
#[test]
fn counted_open_files_match_those_of_a_trial() {
    let needs =
        std::fs::read_to_string(repository_root().join("configs/tables/open-files.toml")).unwrap();
    let needs: toml::Table = toml::from_str(&needs).unwrap();
    let counted = needs["trial"].as_integer().unwrap() as usize;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut held = Vec::new();
    for jobs in [4, 16] {
        // The request to the model stays open until the response arrives.
        let answer = "[default]\ndelay_seconds = 60.0\n\
                      tool_calls = [{ name = \"submit\", arguments = {} }]\n";
        let fake = runtime.block_on(FakeLlm::start(toml::from_str(answer).unwrap())).unwrap();
        let stage = Stage::new();
        let config = write_config(&stage, &fake.base_url(), jobs);
        let out = stage.path("run");
        let out = out.to_str().unwrap();
        let args = ["run", config.to_str().unwrap(), "--no-preflight", "--out", out];
        let mut child =
            stage.proctor(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("a request of each trial", || (fake.requests().len() == jobs).then_some(()));
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
        held.push(open);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let more = held[1] - held[0];
    // A worker also keeps the folder of the trial open, but this run has no workers.
    assert_eq!((more + 6) / 12 + 1, counted, "{held:?}");
}

#[test]
fn plan_that_exceeds_the_open_file_limit_does_not_start() {
    let stage = Stage::new();
    let output = run_trials_with_file_limit(&stage, "http://127.0.0.1:9/v1", 300, 512);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("jobs = 300") && said.contains("512"), "{said}");
    assert!(said.contains("set `jobs` to 100 or less") && said.contains("ulimit -n"), "{said}");
    assert!(!stage.path("run").exists(), "the run was created");
}

/// Time limit for all trials, in seconds. If a run hangs, it fails the test instead of blocking the
/// machine.
const RUN_TIMEOUT_SECONDS: u32 = 3600;

/// Regression test: if more trials than tokio's 512 blocking threads waited for the same environment,
/// the run never ended. The core tier runs only a few trials, because
/// `more_tasks_than_blocking_threads_can_wait_for_one_layer` covers the cause.
#[test]
fn two_thousand_parallel_trials_finish_on_two_cpus() {
    let trials = if is_full() { 2000 } else { 24 };
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"{}\"]\nattempts = {trials}\njobs = {trials}\n\
             [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n",
            repository_root().join("configs/tasks/demo.jsonl").display(),
        ),
    );
    let (out, cache) = (stage.path("run"), stage.path("cache"));
    let line = format!("ulimit -n 65536; exec timeout {RUN_TIMEOUT_SECONDS} taskset -c 0,1 \"$@\"");
    let output = Command::new("bash")
        .args(["-c", &line, "bash", env!("CARGO_BIN_EXE_proctor"), "run", config.to_str().unwrap()])
        .arg("--out")
        .arg(&out)
        .current_dir(repository_root())
        .env("HOME", stage.dir.path())
        .env("PROCTOR_CACHE", &cache)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let end = said.lines().rev().take(40).collect::<Vec<_>>().join("\n");
    assert_eq!(output.status.code(), Some(0), "the last lines, the last one first:\n{end}");
    let report = stage.report(&out);
    let arm = &report["arms"][0];
    assert_eq!(
        (&arm["graded"], &arm["infrastructure_faults"]),
        (&trials.into(), &0.into()),
        "{arm}"
    );
}
