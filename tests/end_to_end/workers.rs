//! Workers share the trials and the limits of a run through its folder, as on several machines.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::{
    resume::wait_for,
    stage::{Stage, events, find},
    survival::SLOW_ONCE,
};

/// Never submits.
const RESTLESS: &str = r#"
[default]
[[default.tool_calls]]
name = "shell"
arguments = { command = "echo step >> steps.txt" }
"#;

pub struct Cluster {
    pub stage: Stage,
    pub fake: FakeLlm,
    pub out: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

impl Cluster {
    pub fn new(script: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let script: Script = toml::from_str(script).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        let stage = Stage::new();
        let out = stage.path("run");
        Self { stage, fake, out, _runtime: runtime }
    }

    pub fn config(&self, lines: &str) -> PathBuf {
        let text = format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n{lines}\n\
             [[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            self.fake.base_url()
        );
        self.stage.file("run.toml", &text)
    }

    /// Plans a run: a runtime that is killed once the plan is there.
    fn plan(&self, lines: &str) {
        let config = self.config(lines);
        let args = ["run", config.to_str().unwrap(), "--out", self.out.to_str().unwrap()];
        let mut command = self.stage.proctor(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the plan", || self.out.join("run.json").exists().then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn worker(&self, lease: &str) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.stage.path("log"));
        let mut command = self.stage.proctor(["worker", self.out.to_str().unwrap()]);
        command.env("PROCTOR_LEASE_SECONDS", lease);
        command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.stage.path("log")).unwrap_or_default()
    }

    /// The journals of the tries that count. A trial that starts again keeps its earlier tries below `tries/`.
    pub fn journals(&self) -> Vec<PathBuf> {
        self.all_journals().into_iter().filter(|path| !is_earlier(path)).collect()
    }

    /// The journals of discarded tries.
    pub fn earlier_journals(&self) -> Vec<PathBuf> {
        self.all_journals().into_iter().filter(|path| is_earlier(path)).collect()
    }

    fn all_journals(&self) -> Vec<PathBuf> {
        find(&self.out.join("trials"), "trajectory.jsonl")
    }

    /// Each trial has one outcome and one verdict, and nothing of the workers is left.
    pub fn expect_complete(&self, trials: usize) {
        let journals = self.journals();
        assert_eq!(journals.len(), trials, "{}", self.log());
        for journal in &journals {
            assert_eq!(
                events(journal, "trial_ended").len(),
                1,
                "{}: {}",
                journal.display(),
                self.log()
            );
            assert!(journal.with_file_name("verdict.json").exists(), "{}", journal.display());
        }
        let report = self.stage.report(&self.out);
        assert_eq!(report["arms"][0]["graded"], trials);
        assert_eq!(report["arms"][0]["complete"], true);
        for left in ["claims", "shares", "workers"] {
            assert!(!self.out.join(left).exists(), "{left}");
        }
    }
}

fn is_earlier(journal: &Path) -> bool {
    journal.iter().any(|part| part == "tries")
}

fn count(journal: &Path, kind: &str) -> usize {
    let text = fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"kind\":\"{kind}\""))).count()
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// A worker that stops answering is taken for dead after its lease. Another one continues its trial, and what the first
/// one writes when it wakes up does not count.
#[test]
fn a_worker_that_falls_silent_loses_its_trial_and_spoils_nothing() {
    let cluster = Cluster::new(&SLOW_ONCE.replace("SLOW", "6"));
    cluster.plan("attempts = 1\njobs = 1\n");
    let mut silent = cluster.worker("2");
    let slow = || cluster.journals().first().is_some_and(|it| count(it, "tool_called") == 2);
    wait_for("the slow command", || slow().then_some(()));
    signal(&silent, "-STOP");
    let mut next = cluster.worker("60");
    assert_eq!(next.wait().unwrap().code(), Some(0), "{}", cluster.log());
    signal(&silent, "-CONT");
    silent.wait().unwrap();
    let journal = cluster.journals().remove(0);
    assert_eq!(events(&journal, "trial_resumed").len(), 1, "{}", cluster.log());
    let superseded = find(&cluster.out.join("superseded"), "superseded.txt");
    assert_eq!(superseded.len(), 1);
    assert_eq!(events(&journal, "trial_ended").len(), 1);
    assert_eq!(cluster.stage.report(&cluster.out)["arms"][0]["graded"], 1);
    // The first two answers were recorded before the takeover.
    let answers: Vec<u64> = events(&journal, "model_answered")
        .iter()
        .map(|one| one["step"].as_u64().unwrap())
        .collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
}

/// USR1 lets a step end, hands the trial back and says by the status that there is more to do.
#[test]
fn a_worker_that_is_drained_leaves_its_trial_to_the_next() {
    let cluster = Cluster::new(&SLOW_ONCE.replace("SLOW", "6"));
    cluster.plan("attempts = 2\njobs = 1\n");
    let mut first = cluster.worker("60");
    let slow = || cluster.journals().iter().any(|it| count(it, "tool_called") == 2);
    wait_for("the slow command", || slow().then_some(()));
    signal(&first, "-USR1");
    assert_eq!(first.wait().unwrap().code(), Some(75), "{}", cluster.log());
    assert_eq!(cluster.worker("60").wait().unwrap().code(), Some(0), "{}", cluster.log());
    cluster.expect_complete(2);
    assert_eq!(cluster.fake.requests().len(), 6, "no answer was asked for twice");
}

/// Without time for a trial a worker starts none.
#[test]
fn a_worker_starts_no_trial_that_may_outlast_its_job() {
    let cluster = Cluster::new(&SLOW_ONCE.replace("SLOW", "6"));
    cluster.plan("attempts = 1\njobs = 1\n");
    let before = cluster.fake.requests().len();
    let out = cluster.out.to_str().unwrap();
    let late = cluster.stage.run(["worker", out, "--time-left", "5:00"], 75);
    assert!(said(&late).contains("too short for the remaining trials"), "{}", said(&late));
    assert_eq!(cluster.fake.requests().len(), before);
    cluster.stage.run(["worker", out, "--time-left", "soon"], 2);
    cluster.stage.run(["worker", out, "--time-left", "1:00:00"], 0);
    cluster.expect_complete(1);
}

/// A limit of the run is one limit, however many workers spend from it.
#[test]
fn workers_keep_a_shared_limit_together() {
    let cluster = Cluster::new(RESTLESS);
    // What the planning runtime may have asked counts, too.
    cluster.plan("attempts = 8\njobs = 2\n[budget]\nsteps = 30\n[budget.run]\nsteps = 40\n");
    let began = Instant::now();
    let mut workers: Vec<Child> = (0..3).map(|_| cluster.worker("60")).collect();
    for worker in &mut workers {
        assert_eq!(worker.wait().unwrap().code(), Some(3), "{}", cluster.log());
    }
    assert!(began.elapsed() < Duration::from_secs(240));
    let answers: usize =
        cluster.journals().iter().map(|it| events(it, "model_answered").len()).sum();
    assert_eq!(answers, 40, "{}", cluster.log());
}

/// Standard error without its line breaks, which depend on the lengths of paths.
fn said(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_run_of_an_engine_is_continued_by_the_engine_or_here() {
    let cluster = Cluster::new("[default]\ntool_calls = [{ name = \"submit\", arguments = {} }]\n");
    cluster.plan("attempts = 1\njobs = 1\n");
    let out = cluster.out.to_str().unwrap();
    let none = cluster.stage.run(["cancel", out], 2);
    assert!(said(&none).contains("no workers"), "{}", said(&none));
    let submitted = r#"[{"engine": "slurm", "job": "1", "workers": 2, "proctor": "0.1.0", "submitted": 1, "command": []}]"#;
    fs::write(cluster.out.join("engine.json"), submitted).unwrap();
    let refused = cluster.stage.run(["resume", out], 2);
    assert!(said(&refused).contains("proctor submit") && said(&refused).contains("--here"));
    cluster.stage.run(["resume", out, "--here"], 0);
    cluster.expect_complete(1);
}

#[test]
fn nothing_changes_a_run_under_its_workers() {
    let cluster = Cluster::new(&SLOW_ONCE.replace("SLOW", "6"));
    cluster.plan("attempts = 1\njobs = 1\n");
    let mut worker = cluster.worker("60");
    wait_for("the worker", || cluster.out.join("workers").exists().then_some(()));
    sleep(Duration::from_millis(300));
    let out = cluster.out.to_str().unwrap();
    for args in [&["resume", out][..], &["rerun", out, "--select", "all"]] {
        let refused = cluster.stage.run(args, 2);
        assert!(said(&refused).contains("1 worker runs"), "{}", said(&refused));
    }
    assert_eq!(worker.wait().unwrap().code(), Some(0), "{}", cluster.log());
    cluster.expect_complete(1);
}

#[test]
fn a_manifest_for_kubernetes_is_printed_and_nothing_is_planned() {
    let cluster = Cluster::new(RESTLESS);
    let config = cluster.config("");
    let (config, out) = (config.to_str().unwrap(), cluster.out.to_str().unwrap());
    let base = ["submit", config, "--out", out, "--engine", "kubernetes", "--workers", "4"];
    let sets = ["--engine-set", "image=r/proctor:1", "--engine-set", "claim=runs", "--dry-run"];
    let printed = cluster.stage.run(base.iter().chain(&sets), 0);
    let job: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!((&job["kind"], &job["spec"]["parallelism"]), (&"Job".into(), &4.into()));
    assert!(!cluster.out.exists());
    let refused = cluster.stage.run(base.iter().chain(&sets[..4]), 2);
    assert!(said(&refused).contains("--dry-run"), "{}", said(&refused));
    assert!(!cluster.out.exists(), "refused before the run is planned");
    let missing = cluster.stage.run(base.iter().chain(&["--dry-run"]), 2);
    assert!(said(&missing).contains("image"), "{}", said(&missing));
}
