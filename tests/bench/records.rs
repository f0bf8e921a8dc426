//! Measures the cost of reading a large run: `cargo bench -p proctor --bench records`.
//!
//! Writes a run with many trials (`PROCTOR_BENCH_TRIALS`, 10,000 by default) in the form in which
//! the runtime records them, and then runs commands on it. Prints the seconds, the peak memory, and
//! the time relative to just reading the bytes of the journals. `report` runs twice: the first time
//! it reads every journal, and the second time it uses what the first one cached.
//!
//! `PROCTOR_BENCH_PROGRAM` is the path of a program that is already built, so that the bench itself
//! needs no release build (`--profile dev`). The bench asserts no times.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use proctor_record::{GradingFiles, Journal, RunDir};
use proctor_types::{
    Arm, ArmId, Budget, CONFIG_VERSION, Ending, Event, LeakCheckSpec, ModelResponse, NetworkPolicy,
    Outcome, RULES_VERSION, RUN_SCHEMA_VERSION, RecordedConfig, RunRecord, RunTask, SandboxSpec,
    Spending, Task, TaskId, ToolCall, TrialId, Usage, Verdict,
};
use serde_json::{Value, json};

const ARMS: u32 = 4;
const TASKS: u32 = 100;
/// Number of steps in each trial.
const STEPS: u64 = 20;
const TESTS: u32 = 20;

fn main() {
    let trials = std::env::var("PROCTOR_BENCH_TRIALS").ok().and_then(|given| given.parse().ok());
    let attempts = trials.unwrap_or(10_000_u32).div_ceil(ARMS * TASKS);
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    let begun = Instant::now();
    write_run(&run, attempts);
    let count = ARMS * TASKS * attempts;
    println!("{count} trials of {STEPS} steps, written in {:.1} s", begun.elapsed().as_secs_f64());
    // The first read fills the page cache, so measure the second one.
    time_raw_read(&run);
    let bare = time_raw_read(&run);
    println!("{:<28} {:>8.2} s", "reading the journals' bytes", bare);
    println!("{:<28} {:>10} {:>10} {:>8}", "", "seconds", "peak MB", "ratio");
    let run = run.to_str().expect("a path");
    for (name, args) in [
        ("report", &["report", run][..]),
        ("report again", &["report", run]),
        ("report --verify", &["report", "--verify", run]),
        ("compare", &["compare", run]),
        ("resume, nothing left to do", &["resume", run]),
    ] {
        let (seconds, peak) = run_proctor(args, folder.path());
        println!("{name:<28} {seconds:>10.2} {peak:>10.0} {:>8.1}", seconds / bare);
    }
}

/// Runs Proctor. Returns the duration in seconds and the peak resident memory in megabytes.
fn run_proctor(args: &[&str], cache: &Path) -> (f64, f64) {
    let begun = Instant::now();
    let program = std::env::var("PROCTOR_BENCH_PROGRAM");
    let mut child = Command::new(program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_proctor")))
        .args(args)
        .env("PROCTOR_CACHE", cache.join("cache"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0_f64;
    let ended = loop {
        let said = fs::read_to_string(&status).unwrap_or_default();
        let line = said.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        peak = peak.max(kilobytes.unwrap_or_default() / 1e3);
        if let Some(ended) = child.try_wait().expect("a child") {
            break ended;
        }
        thread::sleep(Duration::from_millis(2));
    };
    assert!(ended.success(), "{args:?}: {ended}");
    (begun.elapsed().as_secs_f64(), peak)
}

fn time_raw_read(run: &Path) -> f64 {
    let begun = Instant::now();
    let mut folders = vec![run.join("trials")];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.file_name().to_str() {
                Some("trajectory.jsonl") => bytes += fs::read(entry.path()).expect("bytes").len(),
                _ if entry.path().is_dir() => folders.push(entry.path()),
                _ => {}
            }
        }
    }
    assert!(bytes > 0);
    begun.elapsed().as_secs_f64()
}

fn write_run(path: &Path, attempts: u32) {
    let run = RunDir::create(path).expect("a run directory");
    let tests: Vec<String> =
        (0..TESTS).map(|test| format!("tests/test_a.py::test_{test}")).collect();
    let tasks: Vec<Task> = (0..TASKS)
        .map(|number| {
            serde_json::from_value(json!({
                "schema_version": 1, "id": format!("owner__name-{number}"), "statement": "Do it.",
                "repo": format!("owner/name{}", number % 12), "environment": {"base": "host"},
                "fail_to_pass": tests, "test_command": ["pytest"], "gold": "x"
            }))
            .expect("a task")
        })
        .collect();
    let arms: Vec<Arm> = (0..ARMS).map(arm).collect();
    let record = RunRecord {
        schema_version: RUN_SCHEMA_VERSION,
        rules: RULES_VERSION,
        proctor: env!("CARGO_PKG_VERSION").into(),
        created: 1,
        attempts,
        jobs: 2,
        arms: arms.clone(),
        tasks: tasks
            .iter()
            .map(|task| RunTask {
                digest: task.digest(),
                task: task.clone(),
                base_dir: PathBuf::from("/"),
                source: None,
                host_bound: false,
            })
            .collect(),
        config_version: CONFIG_VERSION,
        config: RecordedConfig::default(),
        host: json!({}),
        agent: String::new(),
        certificate: None,
        flaky: Default::default(),
        absent: std::collections::BTreeSet::new(),
        changes: Vec::new(),
        selection: None,
    };
    run.write_run(&record).expect("a plan");
    let mut number = 0_u32;
    for attempt in 1..=attempts {
        for task in &tasks {
            for arm in &arms {
                number += 1;
                let id = TrialId { task: task.id.clone(), arm: arm.id.clone(), attempt };
                write_trial(&run, &id, &tests, number);
            }
        }
    }
}

fn arm(number: u32) -> Arm {
    let arm = Arm {
        control: false,
        forked_from: None,
        id: ArmId::new(""),
        name: format!("arm {number}"),
        scaffold: "gold".into(),
        model: None,
        budget: Budget { steps: Some(u64::from(number) + 50), ..Budget::default() },
        sandbox: SandboxSpec::default(),
        network: NetworkPolicy::default(),
        leak_check: LeakCheckSpec::default(),
        prompts: Value::Null,
        settings: Value::Null,
        statement: Default::default(),
    };
    arm.with_computed_id()
}

fn write_trial(run: &RunDir, id: &TrialId, tests: &[String], number: u32) {
    let dir = run.create_trial_dir(id).expect("a folder");
    let mut journal = Journal::create(dir.trajectory_path(), 1).expect("a journal");
    let mut append = |step, event| {
        journal.append(step, event).expect("room on the disk");
    };
    let (task, arm) = (TaskId::new(id.task.as_str()), id.arm.to_string());
    append(0, Event::TrialStarted { task, arm, attempt: id.attempt });
    let output = "a line of some output of a command\n".repeat(15);
    for step in 1..=STEPS {
        let call = ToolCall {
            id: format!("call_{step}"),
            name: "shell".into(),
            arguments: json!({"command": "grep -rn numeral . | head -15"}).to_string(),
        };
        let usage = Usage { input: 900 * step, output: 60, ..Usage::default() };
        let answer = ModelResponse {
            content: "I look for the place first.".into(),
            tool_calls: vec![call],
            extra: serde_json::Map::new(),
            native: None,
            finish_reason: Some("tool_calls".into()),
            refused: false,
            usage,
            cost_usd: None,
        };
        append(step, Event::ModelAnswered { answer });
        append(
            step,
            Event::ToolReturned {
                edited: None,
                call_id: format!("call_{step}"),
                name: "shell".into(),
                shown: output.clone(),
                full: None,
                exit_status: Some(0),
                seconds: 0.01,
                malformed: false,
            },
        );
    }
    let patch = format!("diff --git a/x b/x\n{number}\n").into_bytes();
    let blobs = run.trial_blobs(&dir);
    let hash = blobs.put(&patch).expect("a blob");
    let packed = blobs.pack_size();
    append(STEPS, Event::PatchCollected { bytes: patch.len() as u64, files: 1, hash });
    dir.write_patch(&patch).expect("a patch");
    let outcome = Outcome {
        schema_version: 1,
        ending: Ending::Submitted,
        try_number: 1,
        spent: Spending {
            steps: STEPS,
            input_tokens: 189_000,
            output_tokens: 1_200,
            ..Spending::default()
        },
        tool_calls: None,
        malformed_calls: 0,
        wall_seconds: 61.5,
        waited_seconds: 0.0,
        tool_seconds: 1.5,
        left_out: vec![],
        not_enforced: vec![],
        noise: None,
        changes: Default::default(),
        interruptions: Default::default(),
        responders: Default::default(),
    };
    append(STEPS, Event::TrialEnded { outcome: Box::new(outcome.clone()), packed });
    dir.write_outcome(&outcome).expect("an outcome");
    let passed = (number % TESTS) as usize;
    let (passed, failed) =
        tests.split_at(if number.is_multiple_of(3) { tests.len() } else { passed });
    let verdict: Verdict = serde_json::from_value(json!({
        "schema_version": 1, "task": id.task, "resolved": failed.is_empty(),
        "passed_rate": passed.len() as f64 / tests.len() as f64,
        "fail_to_pass": {"passed": passed, "failed": failed},
        "pass_to_pass": {"passed": [], "failed": []},
        "tests": tests.iter().map(|test| (test.clone(), json!(if passed.contains(test) { "passed" } else { "failed" })))
            .collect::<serde_json::Map<_, _>>(),
        "policies": {}, "integrity": "clean", "evidence": []
    }))
    .expect("a verdict");
    let grading =
        GradingFiles { patch: &patch, verdict: &verdict, log: b"log", results: b"results" };
    dir.store_grading(id, grading).expect("a verdict");
}
