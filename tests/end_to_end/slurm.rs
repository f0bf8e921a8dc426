//! Tests `proctor submit --engine slurm` on a cluster of two nodes, both of which run on this
//! machine.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

use crate::{
    not_run::not_run,
    resume::wait_for,
    stage::{events, find_files, repository_root},
    workers::Cluster,
};

/// A script that makes a trial take about a second, plus its grading.
const STEADY_SCRIPT: &str = r#"
[default]
delay_seconds = 1.0
tool_calls = [{ name = "submit", arguments = {} }]
"#;

/// A script that makes a trial take about 15 s, so that a drain interrupts it between two
/// responses.
const SLOW_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
delay_seconds = 4.0
tool_calls = [{ name = "shell", arguments = { command = "echo one >> steps.txt" } }]
[[conversation.turn]]
delay_seconds = 4.0
tool_calls = [{ name = "shell", arguments = { command = "echo two >> steps.txt" } }]
[[conversation.turn]]
delay_seconds = 4.0
tool_calls = [{ name = "submit", arguments = {} }]
"#;
const SLOW_RESPONSES: usize = 3;

/// A cluster that is stopped when the test ends. Munge requires a path that every user can enter,
/// so the cluster does not use the folder of the test.
pub struct SlurmCluster {
    folder: PathBuf,
}

impl SlurmCluster {
    pub fn start(test_name: &str, port: u16) -> Option<Self> {
        let there = |name: &str| {
            let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
            found.is_ok_and(|found| found.status.success())
        };
        if !is_root() || !["slurmctld", "slurmd", "munged", "sbatch"].iter().all(|it| there(it)) {
            not_run(test_name, "SLURM", "no Slurm daemons, or not root");
            return None;
        }
        let folder =
            std::env::temp_dir().join(format!("proctor-slurm-{}-{port}", std::process::id()));
        let slurm = Self { folder };
        let ports = [("SLURM_UP_CTLPORT", port), ("SLURM_UP_DPORT", port + 3)];
        let mut up = slurm.control_command("fresh");
        up.envs(ports.map(|(name, port)| (name, port.to_string())));
        let up = up.output().unwrap();
        assert!(up.status.success(), "{}", output_text(&up));
        Some(slurm)
    }

    fn control_command(&self, action: &str) -> Command {
        let mut command = Command::new("bash");
        command.arg(repository_root().join("tests/slurm/slurm-up.sh")).arg(action);
        command
            .env("SLURM_UP_DIR", &self.folder)
            // Don't use cgroups, because a container may not be allowed to write to them.
            .env("SLURM_UP_PROCTRACK", "proctrack/linuxproc")
            .env("SLURM_UP_TASK", "task/none");
        command
    }

    pub fn config_path(&self) -> PathBuf {
        self.folder.join("etc/slurm.conf")
    }

    pub fn squeue(&self, job: &str, format: &str) -> String {
        let mut command = Command::new("squeue");
        command.args(["-h", "-r", "-t", "all", "-j", job, "-o", format]);
        let output = command.env("SLURM_CONF", self.config_path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn daemon_pid(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join("run").join(name)).unwrap().trim().to_owned()
    }

    /// Kills the controller, waits a moment, and starts it again.
    pub fn restart_controller(&self) {
        kill(&self.daemon_pid("slurmctld.pid"));
        sleep(Duration::from_secs(3));
        let _ = fs::remove_file(self.folder.join("run/slurmctld.pid"));
        let up = Command::new("slurmctld").arg("-f").arg(self.config_path()).output().unwrap();
        assert!(up.status.success(), "{}", output_text(&up));
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        let _ = self.control_command("down").output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

pub fn output_text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    // Remove line breaks, because their positions depend on the lengths of paths.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn kill(pid: &str) {
    let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
}

/// Returns the process ids of the workers, by job.
pub fn worker_pids(out: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(out.join("workers")).into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let Ok(member) = serde_json::from_str::<Value>(&text) else { continue };
        if let (Some(job), Some(pid)) = (member["job"].as_str(), member["process"]["pid"].as_u64())
        {
            found.insert(job.to_owned(), pid);
        }
    }
    found
}

/// Returns the job id of the first submission for the run.
pub fn first_job_id(out: &Path) -> String {
    let engine: Value =
        serde_json::from_slice(&fs::read(out.join("engine.json")).unwrap()).unwrap();
    engine[0]["job"].as_str().unwrap().to_owned()
}

/// Kills a worker and the script that started it.
pub fn kill_with_parent(pid: u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
    kill(&pid.to_string());
    // If the result were empty, 0 or 1, other processes would be killed.
    if let Some(parent) = parent.filter(|parent| parent.len() > 1) {
        kill(parent);
    }
}

pub fn verdict_count(out: &Path) -> usize {
    find_files(&out.join("trials"), "verdict.json").len()
}

/// Returns how often Slurm has restarted each job.
fn restart_counts(slurm: &SlurmCluster, job: &str) -> Vec<u64> {
    let mut command = Command::new("scontrol");
    command.args(["-o", "show", "job", job]).env("SLURM_CONF", slurm.config_path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = text.split_whitespace().filter_map(|word| word.strip_prefix("Restarts="));
    all.map(|times| times.parse().unwrap()).collect()
}

fn submit(
    cluster: &Cluster,
    slurm: &SlurmCluster,
    submission: &str,
    extra_args: &[&str],
    status: i32,
) -> Output {
    let mut command = cluster.stage.proctor(["submit", submission, "--engine", "slurm"]);
    command
        .args(extra_args)
        .env("SLURM_CONF", slurm.config_path())
        .env("PROCTOR_LEASE_SECONDS", "20");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{}", output_text(&output));
    output
}

pub fn engine_logs(out: &Path) -> String {
    let read = |entry: fs::DirEntry| fs::read_to_string(entry.path()).unwrap_or_default();
    fs::read_dir(out.join("engine")).into_iter().flatten().flatten().map(read).collect()
}

/// One node dies during the run. The other node finishes the run, and each trial counts once.
#[test]
fn run_survives_the_loss_of_a_node() {
    let Some(slurm) = SlurmCluster::start("run_survives_the_loss_of_a_node", 27_817) else {
        return;
    };
    let cluster = Cluster::new(STEADY_SCRIPT);
    let config = cluster.write_config("attempts = 16\njobs = 2\n");
    let out = cluster.out.clone();
    let (config, path) = (config.to_str().unwrap(), out.to_str().unwrap());
    let refused = submit(
        &cluster,
        &slurm,
        config,
        &["--out", path, "--workers", "2", "--engine-set", "partition=nope"],
        2,
    );
    assert!(
        output_text(&refused).contains("invalid partition")
            && output_text(&refused).contains("sinfo")
    );
    // Four workers with two CPUs each occupy both nodes completely.
    let queued = submit(&cluster, &slurm, path, &["--workers", "4", "--engine-set", "cpus=2"], 0);
    assert!(output_text(&queued).contains("4 workers"), "{}", output_text(&queued));
    let job = first_job_id(&out);
    wait_for("four workers", || (worker_pids(&out).len() == 4).then_some(()));
    wait_for("a verdict", || (verdict_count(&out) > 0).then_some(()));

    // Simulate the death of a node: kill its daemon and the processes of its workers.
    kill(&slurm.daemon_pid("slurmd-n2.pid"));
    let nodes = slurm.squeue(&job, "%F_%K %N");
    let on_two: Vec<&str> = nodes.lines().filter_map(|line| line.strip_suffix(" n2")).collect();
    assert!(!on_two.is_empty(), "{nodes}");
    for (name, pid) in worker_pids(&out) {
        if on_two.contains(&name.as_str()) {
            kill_with_parent(pid);
        }
    }
    wait_for("all verdicts", || (verdict_count(&out) == 16).then_some(()));
    wait_for("the workers' end", || worker_pids(&out).is_empty().then_some(()));
    let journals = cluster.journals();
    assert_eq!(journals.len(), 16, "{}", engine_logs(&out));
    let mut lost = Vec::new();
    for journal in journals {
        assert_eq!(events(&journal, "trial_ended").len(), 1, "{}", engine_logs(&out));
        lost.extend(
            events(&journal, "noted")
                .into_iter()
                .filter_map(|event| event["note"]["lost_worker"].as_str().map(str::to_owned)),
        );
    }
    // The message names the node, the job, and the state according to Slurm.
    let from = format!("on n2, job {job}_");
    let is_whole = |line: &String| line.contains(&from) && !line.contains("unknown");
    assert!(lost.iter().any(is_whole), "{lost:?}: {}", engine_logs(&out));
    assert_eq!(cluster.stage.report(&out)["arms"][0]["graded"], 16, "{}", engine_logs(&out));
}

/// Slurm warns a job before its time limit. The worker then finishes the current steps, releases
/// its trial and requeues the job. When the job starts again, it continues the trial. No response
/// is requested twice.
#[test]
fn job_near_its_time_limit_is_drained_and_requeued() {
    let test = "job_near_its_time_limit_is_drained_and_requeued";
    let Some(slurm) = SlurmCluster::start(test, 27_877) else { return };
    let cluster = Cluster::new(SLOW_SCRIPT);
    let trials = 8;
    let config = cluster.write_config(&format!("attempts = {trials}\njobs = 1\n"));
    let out = cluster.out.clone();
    let (config, path) = (config.to_str().unwrap(), out.to_str().unwrap());
    let refused = ["--out", path, "--workers", "2", "--engine-set", "time=5"];
    let refused = submit(&cluster, &slurm, config, &refused, 2);
    assert!(output_text(&refused).contains("may take 7 minutes"), "{}", output_text(&refused));
    // A trial may take up to seven minutes. Slurm checks the time every 30 s, so the warning comes
    // 10 to 40 s after the start.
    let limits = ["--engine-set", "time=8", "--engine-set", "extra=--signal=B:USR1@440"];
    submit(&cluster, &slurm, path, &[&["--workers", "2"][..], &limits].concat(), 0);
    let job = first_job_id(&out);
    wait_for("the first drained worker", || {
        engine_logs(&out).contains("the job is close to its time limit").then_some(())
    });
    wait_for("all verdicts", || (verdict_count(&out) == trials).then_some(()));
    // A requeued worker may start again after the last verdict, so it is not enough that no worker
    // is registered.
    wait_for("the jobs' end", || {
        let states = slurm.squeue(&job, "%T");
        states.lines().all(|state| state == "COMPLETED").then_some(())
    });
    cluster.assert_complete(trials);
    let restarts = restart_counts(&slurm, &job);
    assert!(restarts.iter().any(|times| *times > 0), "{restarts:?}: {}", engine_logs(&out));
    let (journals, drained) = (cluster.journals(), cluster.discarded_journals());
    assert!(drained.is_empty(), "no try was discarded: {drained:?}");
    let resumed = journals.iter().filter(|it| !events(it, "trial_resumed").is_empty());
    assert!(resumed.count() > 0, "{}", engine_logs(&out));
    assert_eq!(cluster.fake.requests().len(), trials * SLOW_RESPONSES, "{}", engine_logs(&out));
}

/// `cancel` ends all workers, and another `submit` continues the run.
#[test]
fn cancelled_run_is_resumed_by_another_submission() {
    let test = "cancelled_run_is_resumed_by_another_submission";
    let Some(slurm) = SlurmCluster::start(test, 27_837) else { return };
    let cluster = Cluster::new(&STEADY_SCRIPT.replace("1.0", "3.0"));
    let config = cluster.write_config("attempts = 6\njobs = 2\n");
    let out = cluster.out.clone();
    let (config, path) = (config.to_str().unwrap(), out.to_str().unwrap());
    submit(&cluster, &slurm, config, &["--out", path, "--workers", "2"], 0);
    wait_for("a worker", || (!worker_pids(&out).is_empty()).then_some(()));
    let pids = worker_pids(&out);
    let mut cancel = cluster.stage.proctor(["cancel", path]);
    let cancelled = cancel.env("SLURM_CONF", slurm.config_path()).output().unwrap();
    assert_eq!(cancelled.status.code(), Some(0), "{}", output_text(&cancelled));
    for pid in pids.values() {
        let is_gone = || !Path::new(&format!("/proc/{pid}")).exists();
        wait_for("the worker's end", || is_gone().then_some(()));
    }
    let logs = engine_logs(&out);
    assert!(!logs.contains("Ctrl-C"), "a job has no terminal: {logs}");
    // This machine may be a login node, so it runs no trial without `--here`.
    cluster.stage.run(["resume", path], 2);
    let again = submit(&cluster, &slurm, path, &["--workers", "2", "--limit", "1"], 2);
    assert!(output_text(&again).contains("--limit"), "{}", output_text(&again));
    submit(&cluster, &slurm, path, &["--workers", "2"], 0);
    let mut watch = cluster.stage.proctor(["watch", path]);
    let watched = watch.env("SLURM_CONF", slurm.config_path()).output().unwrap();
    assert!(output_text(&watched).contains("6/6 done"), "{}", output_text(&watched));
    assert!(output_text(&watched).contains("slurm job"), "{}", output_text(&watched));
    wait_for("the workers' end", || worker_pids(&out).is_empty().then_some(()));
    cluster.assert_complete(6);
    let finished = submit(&cluster, &slurm, path, &["--workers", "2"], 0);
    assert!(output_text(&finished).contains("nothing to do"), "{}", output_text(&finished));
}

/// If a worker is killed, `watch` shows the signal, because the worker itself leaves no message.
#[test]
fn watch_shows_the_signal_that_ended_a_worker() {
    let test = "watch_shows_the_signal_that_ended_a_worker";
    let Some(slurm) = SlurmCluster::start(test, 27_897) else { return };
    let cluster = Cluster::new(&STEADY_SCRIPT.replace("1.0", "60.0"));
    let config = cluster.write_config("attempts = 1\njobs = 1\n");
    let out = cluster.out.clone();
    let (config, path) = (config.to_str().unwrap(), out.to_str().unwrap());
    submit(&cluster, &slurm, config, &["--out", path, "--workers", "1"], 0);
    let job = first_job_id(&out);
    wait_for("a journal", || (!cluster.journals().is_empty()).then_some(()));
    for pid in worker_pids(&out).values() {
        kill(&pid.to_string());
    }
    wait_for("the job's end", || slurm.squeue(&job, "%T").contains("FAILED").then_some(()));
    let log = cluster.stage.path("watched");
    let mut watch = cluster.stage.proctor(["watch", path]);
    watch.env("SLURM_CONF", slurm.config_path()).stderr(fs::File::create(&log).unwrap());
    let mut watch = watch.spawn().unwrap();
    wait_for("the signal", || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains("the worker was ended by SIGKILL").then_some(())
    });
    watch.kill().unwrap();
    watch.wait().unwrap();
}
