//! Tests that a run on two nodes survives the usual failures of a cluster.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::sleep,
    time::Duration,
};

use crate::{
    resume::wait_for,
    slurm::{
        SlurmCluster, engine_logs, first_job_id, kill, kill_with_parent, output_text,
        verdict_count, worker_pids,
    },
    stage::events,
    workers::Cluster,
};

/// A script with two responses, so that one of them is already recorded when the other is
/// interrupted.
const TWO_RESPONSES: &str = r#"
[[conversation]]
[[conversation.turn]]
delay_seconds = 1.5
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo one > one.txt" }
[[conversation.turn]]
delay_seconds = 1.5
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

const TRIALS: usize = 40;
/// The lease in seconds. If a worker is stopped for longer than that, it loses its trials.
const LEASE_SECONDS: &str = "8";
const STOP_DURATION: Duration = Duration::from_secs(12);
/// How many requests a stopped worker may still send before it notices that it has lost its trials:
/// one per trial.
const MAX_LATE_REQUESTS: usize = 2;

fn submit(cluster: &Cluster, slurm: &SlurmCluster, submission: &str, extra_args: &[&str]) {
    let base = ["submit", submission, "--engine", "slurm", "--engine-set", "cpus=2"];
    let mut command = cluster.stage.proctor(base);
    command
        .args(extra_args)
        .env("SLURM_CONF", slurm.config_path())
        .env("PROCTOR_LEASE_SECONDS", LEASE_SECONDS);
    assert_success(&command.output().unwrap());
}

fn assert_success(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", output_text(output));
}

fn send_signal(pid: u64, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Returns the jobs on a node.
fn jobs_on_node(nodes: &str, node: &str) -> Vec<String> {
    let jobs = nodes.lines().filter_map(|line| line.strip_suffix(node)?.strip_suffix(' '));
    jobs.map(str::to_owned).collect()
}

/// Returns the number of requests in a journal. After a kill, its last line may be incomplete.
fn count_requests(journal: &Path) -> usize {
    let text = fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter(|line| line.contains(r#""kind":"model_asked""#)).count()
}

fn processes_with_marker(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) {
            found.push(line);
        }
    }
    found
}

/// Returns the cgroups that the sandboxes of the given workers left behind.
fn control_groups(pids: &BTreeMap<String, u64>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for controller in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        for group in fs::read_dir(controller.path()).into_iter().flatten().flatten() {
            let name = group.file_name().to_string_lossy().into_owned();
            if pids.values().any(|pid| name.starts_with(&format!("proctor.{pid}-"))) {
                found.push(group.path());
            }
        }
    }
    found
}

#[test]
fn each_trial_counts_once_despite_cluster_failures() {
    let test = "each_trial_counts_once_despite_cluster_failures";
    let Some(slurm) = SlurmCluster::start(test, 27_857) else { return };
    let cluster = Cluster::new(TWO_RESPONSES);
    let config = cluster.write_config(&format!("attempts = {TRIALS}\njobs = 2\n"));
    let out = cluster.out.clone();
    let (config, path) = (config.to_str().unwrap(), out.to_str().unwrap());
    submit(&cluster, &slurm, config, &["--out", path, "--workers", "4", "--no-preflight"]);
    let job = first_job_id(&out);
    wait_for("four workers", || (worker_pids(&out).len() == 4).then_some(()));
    let pids = worker_pids(&out);
    let nodes = slurm.squeue(&job, "%F_%K %N");
    let (first, second) = (jobs_on_node(&nodes, "n1"), jobs_on_node(&nodes, "n2"));
    assert_eq!((first.len(), second.len()), (2, 2), "{nodes}");
    wait_for("a verdict", || (verdict_count(&out) > 0).then_some(()));

    slurm.restart_controller();

    // A node dies.
    kill(&slurm.daemon_pid("slurmd-n2.pid"));
    second.iter().for_each(|job| kill_with_parent(pids[job]));

    // A node is stopped and continues later.
    send_signal(pids[&first[0]], "-STOP");
    sleep(STOP_DURATION);
    send_signal(pids[&first[0]], "-CONT");

    submit(&cluster, &slurm, path, &["--workers", "2", "--no-preflight"]);
    wait_for("all verdicts", || (verdict_count(&out) == TRIALS).then_some(()));
    wait_for("the workers' end", || worker_pids(&out).is_empty().then_some(()));
    let mut cancel = cluster.stage.proctor(["cancel", path]);
    assert_success(&cancel.env("SLURM_CONF", slurm.config_path()).output().unwrap());

    // Each trial counts once, and no recorded response was paid for twice.
    let (counted, earlier) = (cluster.journals(), cluster.discarded_journals());
    assert_eq!(counted.len(), TRIALS, "{}", engine_logs(&out));
    let mut asked: usize = earlier.iter().map(|one| count_requests(one)).sum();
    for journal in &counted {
        let name = journal.display();
        assert_eq!(events(journal, "trial_ended").len(), 1, "{name}: {}", engine_logs(&out));
        assert!(journal.with_file_name("verdict.json").exists(), "{name}");
        let answers = events(journal, "model_answered");
        let steps: Vec<_> = answers.iter().map(|one| one["step"].as_u64().unwrap()).collect();
        assert_eq!(steps, [1, 2], "{name}");
        asked += count_requests(journal);
    }
    let requests = cluster.fake.requests().len();
    assert!(
        requests <= asked + MAX_LATE_REQUESTS,
        "{requests} requests, {asked} of them in journals"
    );
    let report = cluster.stage.report(&out);
    assert_eq!(report["arms"][0]["graded"], TRIALS);
    assert_eq!(report["arms"][0]["complete"], true);

    // Once another worker has started on the node, nothing is left behind, not even by workers that
    // were killed.
    wait_for("the end of all jobs", || {
        let states = slurm.squeue(&job, "%T");
        let lives = |state: &str| matches!(state, "PENDING" | "RUNNING" | "COMPLETING");
        (!states.lines().any(lives)).then_some(())
    });
    cluster.stage.run(["worker", path], 0);
    wait_for("the end of all processes", || processes_with_marker(path).is_empty().then_some(()));
    assert_eq!(control_groups(&pids), Vec::<PathBuf>::new());
    for left in ["claims", "shares", "workers"] {
        assert!(!out.join(left).exists(), "{left}");
    }
}
