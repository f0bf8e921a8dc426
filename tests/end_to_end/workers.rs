//! Tests that workers share the trials and limits of a run through its folder, as they would on
//! several machines.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use fake_llm::{FakeLlm, Script};
use serde_json::Value;

use crate::{
    interruptions::SLOW_STEP_SCRIPT,
    resume::wait_for,
    stage::{Stage, events, find_files},
};

/// A script whose responses cost two cents each, according to [`PRICE_LINES`].
const PRICED_SCRIPT: &str = r#"
[default]
usage = { input = 4000, output = 50 }
[[default.tool_calls]]
name = "shell"
arguments = { command = "echo step >> steps.txt" }
"#;
const PRICE_LINES: &str = "max_output_tokens = 50\nprice = { input = 2.0, output = 240.0 }\n";
const RESPONSE_USD: f64 = 0.02;

/// A script that never submits.
const NEVER_SUBMITS: &str = r#"
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

    pub fn write_config(&self, lines: &str) -> PathBuf {
        self.write_config_with_model(lines, "")
    }

    /// Like [`Cluster::write_config`], but with additional lines for the model.
    fn write_config_with_model(&self, lines: &str, model: &str) -> PathBuf {
        let text = format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n{lines}\n\
             [[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n{model}",
            self.fake.base_url()
        );
        self.stage.write_file("run.toml", &text)
    }

    /// Plans a run for workers with a scheduler that prints a job id and does nothing else. No
    /// trial starts, and no model is called.
    fn submit_to_fake_slurm(&self, config: &Path) {
        let (config, out) = (config.to_str().unwrap(), self.out.to_str().unwrap());
        self.submit(config, &["--out", out, "--no-preflight"], 0);
        assert!(self.fake.requests().is_empty());
    }

    /// Submits one worker to the scheduler of [`Cluster::submit_to_fake_slurm`]. Expects this exit
    /// status.
    fn submit(&self, submission: &str, extra_args: &[&str], status: i32) -> Output {
        let folder = self.stage.path("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("sbatch"), "#!/bin/sh\necho 1\n").unwrap();
        fs::set_permissions(folder.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let args = ["submit", submission, "--engine", "slurm", "--workers", "1"];
        let mut command = self.stage.proctor(args);
        let output = command.args(extra_args).env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr_text(&output));
        output
    }

    /// Returns the number of submissions of the run.
    fn submission_count(&self) -> usize {
        let Ok(bytes) = fs::read(self.out.join("engine.json")) else { return 0 };
        let submissions: Value = serde_json::from_slice(&bytes).unwrap();
        submissions.as_array().unwrap().len()
    }

    /// Runs `watch` until its output contains `expected`. Returns the line.
    fn watch_until(&self, expected: &str) -> String {
        let log = self.stage.path("watched");
        let mut watch = self.stage.proctor(["watch", self.out.to_str().unwrap()]);
        let mut watch = watch.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let line = wait_for(expected, || {
            let text = fs::read_to_string(&log).unwrap();
            text.lines().find(|line| line.contains(expected)).map(str::to_owned)
        });
        watch.kill().unwrap();
        watch.wait().unwrap();
        line
    }

    /// Makes the workers of the run look like processes on another machine, so that only their
    /// heartbeats show whether they are alive.
    fn move_workers_to_another_host(&self) {
        for entry in fs::read_dir(self.out.join("workers")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let mut member: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                member["process"]["boot"] = "another machine's".into();
                fs::write(&path, member.to_string()).unwrap();
            }
        }
    }

    /// Plans a run: starts a runtime and kills it once it has written the plan.
    fn plan_and_kill(&self, lines: &str) {
        let config = self.write_config(lines);
        let args = ["run", config.to_str().unwrap(), "--out", self.out.to_str().unwrap()];
        let mut command = self.stage.proctor(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the plan", || self.out.join("run.json").exists().then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn start_worker(&self, lease: &str) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.stage.path("log"));
        let mut command = self.stage.proctor(["worker", self.out.to_str().unwrap()]);
        command.env("PROCTOR_LEASE_SECONDS", lease);
        command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.stage.path("log")).unwrap_or_default()
    }

    /// Returns the journals of the tries that count. If a trial was restarted, its earlier tries
    /// are in `tries/`.
    pub fn journals(&self) -> Vec<PathBuf> {
        self.all_journals().into_iter().filter(|path| !is_discarded(path)).collect()
    }

    /// Returns the journals of discarded tries.
    pub fn discarded_journals(&self) -> Vec<PathBuf> {
        self.all_journals().into_iter().filter(|path| is_discarded(path)).collect()
    }

    fn all_journals(&self) -> Vec<PathBuf> {
        find_files(&self.out.join("trials"), "trajectory.jsonl")
    }

    /// Asserts that each trial has one outcome and one verdict, and that the workers have left
    /// nothing behind.
    pub fn assert_complete(&self, trials: usize) {
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

fn is_discarded(journal: &Path) -> bool {
    journal.iter().any(|part| part == "tries")
}

fn count_events(journal: &Path, kind: &str) -> usize {
    let text = fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"kind\":\"{kind}\""))).count()
}

fn send_signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// If a worker stops responding, it counts as dead after its lease. Another worker continues its
/// trial. If the first worker wakes up later, everything that it writes is ignored.
#[test]
fn silent_worker_loses_its_trial_and_its_late_writes_do_not_count() {
    let cluster = Cluster::new(&SLOW_STEP_SCRIPT.replace("SLOW", "6"));
    cluster.plan_and_kill("attempts = 1\njobs = 1\n");
    let mut silent = cluster.start_worker("2");
    let slow = || cluster.journals().first().is_some_and(|it| count_events(it, "tool_called") == 2);
    wait_for("the slow command", || slow().then_some(()));
    send_signal(&silent, "-STOP");
    let mut next = cluster.start_worker("60");
    assert_eq!(next.wait().unwrap().code(), Some(0), "{}", cluster.log());
    send_signal(&silent, "-CONT");
    silent.wait().unwrap();
    let journal = cluster.journals().remove(0);
    assert_eq!(events(&journal, "trial_resumed").len(), 1, "{}", cluster.log());
    let superseded = find_files(&cluster.out.join("superseded"), "superseded.txt");
    assert_eq!(superseded.len(), 1);
    assert_eq!(events(&journal, "trial_ended").len(), 1);
    assert_eq!(cluster.stage.report(&cluster.out)["arms"][0]["graded"], 1);
    // The first two responses were recorded before the other worker took over the trial.
    let answers: Vec<u64> = events(&journal, "model_answered")
        .iter()
        .map(|one| one["step"].as_u64().unwrap())
        .collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
}

/// Shifts the times in the journals of a killed worker, as if it had started ten minutes earlier.
fn backdate_journal(journal: &Path) {
    let text = fs::read_to_string(journal).unwrap();
    let earlier = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        event["t_wall"] = (event["t_wall"].as_f64().unwrap() - 600.0).into();
        format!("{event}\n")
    };
    fs::write(journal, text.lines().map(earlier).collect::<String>()).unwrap();
}

/// Kills a worker during a command. A worker on another machine cannot see that the process is
/// gone. So it waits until the lease has expired, and then continues the trial after the last
/// complete step.
#[test]
fn killed_workers_trial_is_resumed_by_another_node() {
    let cluster = Cluster::new(&SLOW_STEP_SCRIPT.replace("SLOW", "6"));
    cluster.submit_to_fake_slurm(&cluster.write_config("attempts = 1\njobs = 1\n"));
    let mut killed = cluster.start_worker("5");
    let slow = || cluster.journals().first().is_some_and(|it| count_events(it, "tool_called") == 2);
    wait_for("the slow command", || slow().then_some(()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    cluster.move_workers_to_another_host();
    assert_eq!(cluster.fake.requests().len(), 2);
    let began = Instant::now();
    assert_eq!(cluster.start_worker("60").wait().unwrap().code(), Some(0), "{}", cluster.log());
    // The lease started slightly earlier, when the file was written.
    assert!(began.elapsed() >= Duration::from_secs(4), "the lease had not expired");
    let journal = cluster.journals().remove(0);
    let resumed = events(&journal, "trial_resumed");
    assert_eq!(resumed.len(), 1, "{}", cluster.log());
    assert_eq!(resumed[0]["whole_steps"], 1, "the interrupted command runs again");
    let steps: Vec<_> =
        events(&journal, "model_answered").iter().map(|it| it["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [1, 2, 3]);
    assert_eq!(cluster.fake.requests().len(), 3, "no recorded response was requested again");
    let lost = events(&journal, "noted");
    assert!(lost.iter().any(|one| one["note"]["lost_worker"].is_string()), "{lost:?}");
    assert!(cluster.log().contains("taken over from worker"), "{}", cluster.log());
    cluster.assert_complete(1);
}

/// `watch` shows which trial has been running longest, and when its limits will end it.
#[test]
fn watch_names_the_straggler_and_its_deadline() {
    let cluster = Cluster::new(&SLOW_STEP_SCRIPT.replace("SLOW", "60"));
    cluster.submit_to_fake_slurm(
        &cluster.write_config("attempts = 2\njobs = 1\n[budget]\nwall_seconds = 900\n"),
    );
    let mut worker = cluster.start_worker("60");
    let slow = || cluster.journals().first().is_some_and(|it| count_events(it, "tool_called") == 2);
    wait_for("the slow command", || slow().then_some(()));
    worker.kill().unwrap();
    worker.wait().unwrap();
    backdate_journal(&cluster.journals().remove(0));
    let line = cluster.watch_until("longest: ");
    // The trial has 900 s for the agent, 300 s for the tests and 120 s for the rest, of which ten
    // minutes have passed. The result may be off by a second.
    let is_one_of = |shown: [&str; 2]| shown.iter().any(|one| line.contains(one));
    assert!(is_one_of(["longest: demo__roman-1 asks for 10:", "asks for 9:59, "]), "{line}");
    assert!(is_one_of(["ends in at most 11:", "ends in at most 12:0"]), "{line}");
}

/// After USR1, the worker finishes its step and releases the trial. Its exit status shows that
/// there is work left.
#[test]
fn drained_worker_returns_its_trial() {
    let cluster = Cluster::new(&SLOW_STEP_SCRIPT.replace("SLOW", "6"));
    cluster.plan_and_kill("attempts = 2\njobs = 1\n");
    let mut first = cluster.start_worker("60");
    let slow = || cluster.journals().iter().any(|it| count_events(it, "tool_called") == 2);
    wait_for("the slow command", || slow().then_some(()));
    send_signal(&first, "-USR1");
    assert_eq!(first.wait().unwrap().code(), Some(75), "{}", cluster.log());
    assert_eq!(cluster.start_worker("60").wait().unwrap().code(), Some(0), "{}", cluster.log());
    cluster.assert_complete(2);
    assert_eq!(cluster.fake.requests().len(), 6, "no response was requested twice");
}

/// If a worker's job has too little time left for a trial, the worker does not start the trial.
#[test]
fn worker_starts_no_trial_that_may_outlast_its_job() {
    let cluster = Cluster::new(&SLOW_STEP_SCRIPT.replace("SLOW", "6"));
    cluster.plan_and_kill("attempts = 1\njobs = 1\n");
    let before = cluster.fake.requests().len();
    let out = cluster.out.to_str().unwrap();
    let late = cluster.stage.run(["worker", out, "--time-left", "5:00"], 75);
    assert!(
        stderr_text(&late).contains("too little time left for the remaining trials"),
        "{}",
        stderr_text(&late)
    );
    assert_eq!(cluster.fake.requests().len(), before);
    cluster.stage.run(["worker", out, "--time-left", "soon"], 2);
    cluster.stage.run(["worker", out, "--time-left", "1:00:00"], 0);
    cluster.assert_complete(1);
}

/// A limit of the run applies to all workers together.
#[test]
fn workers_share_one_limit() {
    let cluster = Cluster::new(NEVER_SUBMITS);
    // The requests of the runtime that planned the run also count toward the limit.
    cluster
        .plan_and_kill("attempts = 8\njobs = 2\n[budget]\nsteps = 30\n[budget.run]\nsteps = 40\n");
    let began = Instant::now();
    let mut workers: Vec<Child> = (0..3).map(|_| cluster.start_worker("60")).collect();
    for worker in &mut workers {
        assert_eq!(worker.wait().unwrap().code(), Some(3), "{}", cluster.log());
    }
    assert!(began.elapsed() < Duration::from_secs(240));
    let answers: usize =
        cluster.journals().iter().map(|it| events(it, "model_answered").len()).sum();
    assert_eq!(answers, 40, "{}", cluster.log());
}

/// A limit on cost and a limit on the request rate must apply to eight workers together, according
/// to the log of the model server.
#[test]
fn eight_workers_share_a_cost_limit_and_a_request_rate() {
    const WORKERS: usize = 8;
    const REQUESTS_PER_MINUTE: usize = 30;
    let cluster = Cluster::new(PRICED_SCRIPT);
    let lines = format!(
        "attempts = 16\njobs = 1\n[budget]\nsteps = 30\n[budget.run]\ncost_usd = 1.0\n\
         [endpoints.fake]\nbase_url = \"{}\"\nrequests_per_minute = {REQUESTS_PER_MINUTE}\n",
        cluster.fake.base_url()
    );
    cluster.submit_to_fake_slurm(&cluster.write_config_with_model(&lines, PRICE_LINES));
    let mut workers: Vec<Child> = (0..WORKERS).map(|_| cluster.start_worker("60")).collect();
    for worker in &mut workers {
        assert_eq!(worker.wait().unwrap().code(), Some(3), "{}", cluster.log());
    }
    let times: Vec<f64> = cluster.fake.requests().iter().map(|one| one.seconds).collect();
    let dollars = times.len() as f64 * RESPONSE_USD;
    // Each worker runs one trial. When the limit is reached, each may have one response in flight.
    let most = 1.0 + WORKERS as f64 * RESPONSE_USD;
    assert!((0.95..most).contains(&dollars), "{dollars} dollars: {}", cluster.log());
    for (early, late) in times.iter().zip(&times[REQUESTS_PER_MINUTE..]) {
        assert!(
            late - early >= 60.0,
            "{REQUESTS_PER_MINUTE} requests in {} s: {times:?}",
            late - early
        );
    }
    // Workers use 95% of the allowed rate. All requests fit in two windows, plus a few seconds for
    // the first request of each worker.
    let took = times[times.len() - 1] - times[0];
    assert!(took < 90.0, "{took} s: {times:?}");
    let answers: usize =
        cluster.journals().iter().map(|it| events(it, "model_answered").len()).sum();
    assert_eq!(answers, times.len(), "each response is in a journal");
    let report = cluster.stage.report(&cluster.out);
    assert_eq!(
        report["arms"][0]["complete"], false,
        "the limit does not count as a failure of the model"
    );
}

/// Returns standard error without line breaks, because their positions depend on the lengths of
/// paths.
fn stderr_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A limit of the run ends its trials. The log of the worker names a command that raises the limit,
/// and this command works.
#[test]
fn submit_raises_the_limit_of_a_submitted_run() {
    let cluster = Cluster::new(PRICED_SCRIPT);
    let lines = "attempts = 3\njobs = 1\n[budget]\nsteps = 3\n[budget.run]\ncost_usd = 0.09\n";
    cluster.submit_to_fake_slurm(&cluster.write_config_with_model(lines, PRICE_LINES));
    let out = cluster.out.to_str().unwrap();
    assert_eq!(cluster.start_worker("60").wait().unwrap().code(), Some(3), "{}", cluster.log());
    let log = cluster.log();
    let command =
        format!("`proctor submit {out} --engine slurm --workers N --set budget.run.cost_usd=...`");
    for part in [
        command.as_str(),
        "error: some trials have no verdict: asks: 1 stopped by the run's limit, 1 not ended",
        "hint: raise the limit with",
    ] {
        assert!(log.contains(part), "{part} is missing in {log}");
    }

    // The second trial has ended, but has no verdict. The cost includes it.
    let paid = cluster.stage.report(&cluster.out)["arms"][0]["paid"]["cost_usd"].clone();
    let paid = format!("${:.2}, ", paid.as_f64().unwrap());
    let line = cluster.watch_until("1/3 done");
    assert!(line.contains("1 stopped by the run's cost limit"), "{line}");
    assert!(line.contains(&paid) && !line.contains("running"), "{paid}: {line}");

    let raise = ["--set", "budget.run.cost_usd=1"];
    let refused = cluster.stage.run([&["resume", out][..], &raise].concat(), 2);
    let refused = stderr_text(&refused);
    assert!(refused.contains("--set 'budget.run.cost_usd=1' --here"), "{refused}");
    let refused = cluster.submit(out, &["--set", "budget.steps=9"], 2);
    assert!(stderr_text(&refused).contains("is part of the plan"), "{}", stderr_text(&refused));
    let read_plan = || fs::read(cluster.out.join("run.json")).unwrap();
    let before = read_plan();
    cluster.submit(out, &[&raise[..], &["--dry-run"]].concat(), 0);
    assert_eq!((cluster.submission_count(), read_plan()), (1, before));
    cluster.submit(out, &raise, 0);
    assert_eq!(cluster.submission_count(), 2);
    assert_eq!(cluster.start_worker("60").wait().unwrap().code(), Some(0), "{}", cluster.log());
    assert_eq!(cluster.fake.requests().len(), 9, "no response was requested twice");
    let remarks = cluster.stage.report(&cluster.out)["remarks"].to_string();
    assert!(remarks.contains("Changed budget.run.cost_usd from 0.09 to 1.0."), "{remarks}");

    // Nothing is left to do.
    let finished = cluster.submit(out, &[], 0);
    assert!(String::from_utf8_lossy(&finished.stdout).contains("nothing to do"));
    assert_eq!(cluster.submission_count(), 2);
    let watched = cluster.stage.run(["watch", out], 0);
    assert!(stderr_text(&watched).contains("$0.18, "), "{}", stderr_text(&watched));
}

/// If the endpoint rejects the key, every worker would fail. So no worker is queued.
#[test]
fn submit_tests_the_models_before_it_queues_workers() {
    let cluster = Cluster::new(
        "[[rule]]\nwhen = \"check of the connection\"\n\
         answer = { fault = [{ kind = \"status\", status = 401, times = 0 }] }\n\
         [default]\ntool_calls = [{ name = \"submit\", arguments = {} }]\n",
    );
    let config = cluster.write_config("attempts = 10\njobs = 1\n");
    let (config, out) = (config.to_str().unwrap(), cluster.out.to_str().unwrap());
    let refused = stderr_text(&cluster.submit(config, &["--out", out], 2));
    for part in
        ["preflight: `fake`", "no workers were queued", "--no-preflight", "the plan is kept in"]
    {
        assert!(refused.contains(part), "{part} is missing in {refused}");
    }
    assert_eq!((cluster.fake.requests().len(), cluster.submission_count()), (1, 0));
    cluster.submit(out, &[], 2);
    assert_eq!((cluster.fake.requests().len(), cluster.submission_count()), (2, 0));
    cluster.submit(out, &["--no-preflight"], 0);
    assert_eq!((cluster.fake.requests().len(), cluster.submission_count()), (2, 1));
}

#[test]
fn submitted_run_is_resumed_by_its_engine_or_locally() {
    let cluster = Cluster::new("[default]\ntool_calls = [{ name = \"submit\", arguments = {} }]\n");
    cluster.plan_and_kill("attempts = 1\njobs = 1\n");
    let out = cluster.out.to_str().unwrap();
    let none = cluster.stage.run(["cancel", out], 2);
    assert!(stderr_text(&none).contains("no workers"), "{}", stderr_text(&none));
    let submitted = r#"[{"engine": "slurm", "job": "1", "workers": 2, "proctor": "0.1.0", "submitted": 1, "command": []}]"#;
    fs::write(cluster.out.join("engine.json"), submitted).unwrap();
    let refused = cluster.stage.run(["resume", out], 2);
    assert!(
        stderr_text(&refused).contains("proctor submit")
            && stderr_text(&refused).contains("--here")
    );
    cluster.stage.run(["resume", out, "--here"], 0);
    cluster.assert_complete(1);
}

#[test]
fn commands_that_change_a_run_are_rejected_while_workers_run() {
    let cluster = Cluster::new(&SLOW_STEP_SCRIPT.replace("SLOW", "6"));
    cluster.plan_and_kill("attempts = 1\njobs = 1\n");
    let mut worker = cluster.start_worker("60");
    wait_for("the worker", || cluster.out.join("workers").exists().then_some(()));
    sleep(Duration::from_millis(300));
    let out = cluster.out.to_str().unwrap();
    for args in [&["resume", out][..], &["rerun", out, "--select", "all"]] {
        let refused = cluster.stage.run(args, 2);
        assert!(stderr_text(&refused).contains("1 worker runs"), "{}", stderr_text(&refused));
    }
    assert_eq!(worker.wait().unwrap().code(), Some(0), "{}", cluster.log());
    cluster.assert_complete(1);
}

#[test]
fn kubernetes_manifest_is_printed_without_planning_a_run() {
    let cluster = Cluster::new(NEVER_SUBMITS);
    let config = cluster.write_config("");
    let (config, out) = (config.to_str().unwrap(), cluster.out.to_str().unwrap());
    let base = ["submit", config, "--out", out, "--engine", "kubernetes", "--workers", "4"];
    let sets = ["--engine-set", "image=r/proctor:1", "--engine-set", "claim=runs", "--dry-run"];
    let printed = cluster.stage.run(base.iter().chain(&sets), 0);
    let job: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!((&job["kind"], &job["spec"]["parallelism"]), (&"Job".into(), &4.into()));
    assert!(!cluster.out.exists());
    let refused = cluster.stage.run(base.iter().chain(&sets[..4]), 2);
    assert!(stderr_text(&refused).contains("--dry-run"), "{}", stderr_text(&refused));
    assert!(!cluster.out.exists(), "refused before the run is planned");
    let missing = cluster.stage.run(base.iter().chain(&["--dry-run"]), 2);
    assert!(stderr_text(&missing).contains("image"), "{}", stderr_text(&missing));
}
