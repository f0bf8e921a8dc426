//! Measures the cost of the checks that Proctor runs for each score: `cargo bench -p proctor
//! --bench costs`.
//!
//! - Content match: a scripted trial with many steps, and scanning the trial's record alone. The
//!   model responds immediately, so steps are as short as possible and the relative cost is as high
//!   as possible.
//! - The attack pack: validating each task with the attacks and without them.
//! - Creating the quality file.
//!
//! The last two measurements use the demo dataset, or the dataset in `PROCTOR_BENCH_TASKS`.
//! `PROCTOR_BENCH_PROGRAM` is the path of a program that is already built (`--profile dev`). The
//! bench asserts no times.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use fake_llm::{FakeLlm, Script};
use proctor_forensics::{ExaminationInput, Solution};
use proctor_record::{RunDir, read_journal};
use proctor_types::{Envelope, Event, Task, TrialId};
use serde_json::{Value, json};

/// Number of steps in the trial.
const STEPS: usize = 60;
/// Number of times to scan the trial's record. The result is the median.
const SCANS: usize = 21;
const DEMO_TASKS: &str = "configs/tasks/demo.jsonl";

fn main() {
    let place = tempfile::tempdir().expect("a folder");
    measure_content_match(place.path());
    let tasks = std::env::var("PROCTOR_BENCH_TASKS").unwrap_or_else(|_| DEMO_TASKS.to_owned());
    let listed = run_proctor(&["tasks", "list", "--tasks", &tasks], place.path());
    let count = listed.1.lines().count().saturating_sub(1).max(1) as f64;
    // The first run also builds the environments, so measure the second one.
    let validate = ["tasks", "validate", "--tasks", &tasks];
    run_proctor(&validate, place.path());
    let (plain, _) = run_proctor(&validate, place.path());
    let (attacked, _) = run_proctor(&[validate.as_slice(), &["--attack"]].concat(), place.path());
    println!("{:<44} {:>9.2} s", "validation, per task", plain / count);
    println!("{:<44} {:>9.2} s", "validation with the attack pack, per task", attacked / count);
    println!("{:<44} {:>9.2}", "ratio", attacked / plain);
    let file = place.path().join("quality.json");
    let file = file.to_str().expect("a path");
    let (quality, _) =
        run_proctor(&["tasks", "quality", "--tasks", &tasks, "--out", file], place.path());
    println!("{:<44} {:>9.2} ms", "listing, per task", listed.0 / count * 1e3);
    println!("{:<44} {:>9.2} ms", "quality file, per task", quality / count * 1e3);
}

/// Measures the time for content match relative to the duration of a step.
fn measure_content_match(folder: &Path) {
    let call_of =
        |line: &str| json!({"tool_calls": [{"name": "shell", "arguments": {"command": line}}]});
    let reads = ["cat numerals/*.py", "ls -R", "/venv/bin/python -m pytest -q 2>&1 | tail -n 5"];
    let mut turns: Vec<Value> =
        reads.iter().cycle().take(STEPS).map(|line| call_of(line)).collect();
    turns.push(json!({"tool_calls": [{"name": "submit", "arguments": {}}]}));
    let script: Script =
        serde_json::from_value(json!({"conversation": [{"model": "m", "turn": turns}]}))
            .expect("a script");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let fake = runtime.block_on(FakeLlm::start(script)).expect("a model");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(DEMO_TASKS);
    let text = format!(
        "tasks = [{demo:?}]\n[budget]\nsteps = {}\n[[arms]]\nname = \"a\"\nscaffold = \"tools\"\nmodel = \"m\"\n\
         [models.m]\nbase_url = {:?}\nname = \"m\"\n",
        STEPS + 10,
        fake.base_url()
    );
    let config = folder.join("run.toml");
    fs::write(&config, text).expect("a file");
    let out = folder.join("run");
    let paths = [&config, &out].map(|path| path.to_str().expect("a path"));
    run_proctor(&["run", paths[0], "--out", paths[1], "--limit", "1"], folder);

    let run = RunDir::open_read_only(&out).expect("a run");
    let record = run.read_run().expect("its record");
    let task: &Task = &record.tasks[0].task;
    let id = TrialId { task: task.id.clone(), arm: record.arms[0].id.clone(), attempt: 1 };
    let dir = run.trial_dir(&id);
    let events: Vec<Envelope> = read_journal(dir.trajectory_path()).expect("a journal").events;
    let answers: Vec<f64> = events
        .iter()
        .filter(|envelope| matches!(envelope.event, Event::ModelAnswered { .. }))
        .map(|envelope| envelope.t_mono)
        .collect();
    let of_step = (answers[answers.len() - 1] - answers[0]) / (answers.len() - 1) as f64;
    let names = proctor_grade::test_names().expect("the names of tests");
    let patch = fs::read(dir.patch_path()).unwrap_or_default();
    let blobs = run.trial_blobs(&dir);
    let examiner =
        ExaminationInput { task, names, events: &events, blobs: Some(&blobs), patch: &patch };
    let look = median_duration(|| drop(examiner.examine_content().expect("a look")))
        / answers.len() as f64;
    let solution = Solution::from_task(task).expect("a solution").expect("lines of the solution");
    let body: Vec<u8> = record.tasks[0].task.statement.bytes().cycle().take(1 << 20).collect();
    let megabyte = median_duration(|| assert!(!solution.is_contained_in(&body)));
    println!("{:<44} {:>9.3} ms", "step without content match", of_step * 1e3);
    println!("{:<44} {:>9.3} ms", "content match, per step", look * 1e3);
    println!("{:<44} {:>9.4}", "ratio", (of_step + look) / of_step);
    println!("{:<44} {:>9.3} ms", "content match, 1 MiB through the proxy", megabyte * 1e3);
}

/// Returns the median duration of `operation` in seconds.
fn median_duration(mut operation: impl FnMut()) -> f64 {
    let mut took: Vec<f64> = (0..SCANS)
        .map(|_| {
            let begun = Instant::now();
            operation();
            begun.elapsed().as_secs_f64()
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[SCANS / 2]
}

/// Runs Proctor. Returns the duration in seconds and the output.
fn run_proctor(args: &[&str], folder: &Path) -> (f64, String) {
    let program = std::env::var("PROCTOR_BENCH_PROGRAM");
    let begun = Instant::now();
    let done = Command::new(program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_proctor")))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PROCTOR_CACHE", folder.join("cache"))
        .stderr(Stdio::inherit())
        .output()
        .expect("the program");
    assert!(done.status.success(), "{args:?}: {}", done.status);
    (begun.elapsed().as_secs_f64(), String::from_utf8_lossy(&done.stdout).into_owned())
}
