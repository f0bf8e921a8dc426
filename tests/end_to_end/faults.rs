//! Tests faults that must not count as the model's result. Each fault has its own message and exit
//! status, and earlier work is kept.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use fake_llm::{FakeLlm, Script};

use crate::not_run::not_run;
use crate::{
    resume::wait_for,
    stage::{Stage, events, find_files, has_docker},
};

const GOLD_ARM: &str = "[[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n";

fn config_text(base_url: &str, extra_lines: &str) -> String {
    format!(
        "tasks = [\"configs/tasks/demo.jsonl\"]\n{GOLD_ARM}\
         [[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
         [models.fake]\nbase_url = \"{base_url}\"\nname = \"fake\"\n{extra_lines}"
    )
}

#[test]
fn missing_key_variable_stops_the_run_before_it_starts() {
    let stage = Stage::new();
    let text = config_text("http://127.0.0.1:9", "key_env = \"PROCTOR_TEST_NO_SUCH_KEY\"\n");
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    let said = stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 2);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    for part in [
        "key `models.fake.key_env`: arm asks",
        "PROCTOR_TEST_NO_SUCH_KEY is not set",
        "export PROCTOR_TEST_NO_SUCH",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    assert!(!out.exists(), "the run was created");
}

#[test]
fn dead_endpoint_is_a_fault_and_not_a_score_of_zero() {
    let stage = Stage::new();
    // This port was free a moment ago, so nothing listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config =
        stage.write_file("run.toml", &config_text(&format!("http://127.0.0.1:{port}"), ""));
    let out = stage.path("run");
    let done = stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 3);
    let table = String::from_utf8_lossy(&done.stdout).into_owned();
    for part in
        ["no response after", "check that the endpoint is running", "resolved is between 0%"]
    {
        assert!(table.contains(part), "{part:?} is missing in {table}");
    }
    let report = stage.report(&out);
    let [gold, asks] = ["gold", "asks"].map(|name| crate::stage::find_arm(&report, name));
    assert_eq!((&gold["resolved"], &gold["complete"]), (&1.into(), &true.into()));
    assert_eq!((&asks["infrastructure_faults"], &asks["complete"]), (&1.into(), &false.into()));
    let asked = report["tasks"].as_array().unwrap().iter().find(|row| row["arm"] == asks["arm"]);
    assert_eq!(asked.unwrap()["resolved"], serde_json::Value::Null);
}

#[test]
fn rejected_first_request_is_a_fault() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script =
        toml::from_str("[default]\nfault = [{ kind = \"status\", status = 400, times = 0 }]\n")
            .unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let config = stage.write_file("run.toml", &config_text(&fake.base_url(), ""));
    let out = stage.path("run");
    let done = stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 3);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(said.contains("rejected the first request with 400"), "{said}");
    // A different server behind a router might accept the request.
    assert_eq!(
        fake.requests().len(),
        3,
        "the number of requests is from configs/tables/retry.toml"
    );
}

/// A script with a quick step, a slow response during which the sandbox is killed, and a
/// submission.
const SLOW_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo one > one.txt" }
[[conversation.turn]]
delay_seconds = 4.0
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "cat one.txt" }
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

/// Kills the sandbox from outside during a trial. The trial continues in a new sandbox from the
/// last step in its record, and no response is requested twice.
fn check_sandbox_kill(kind: &str, kill: impl Fn(&Path)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(SLOW_SCRIPT).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let text = config_text(&fake.base_url(), &format!("[sandbox]\nkind = \"{kind}\"\n"));
    let config = stage.write_file("run.toml", &text.replacen(GOLD_ARM, "", 1));
    let out = stage.path("run");
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut command = stage.proctor(args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the slow answer", || (fake.requests().len() == 2).then_some(()));
    kill(&out);
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("sandbox fault") && said.contains("retrying"), "{said}");
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    assert_eq!(journals.len(), 1, "the trial must continue in the same try");
    let failed = events(&journals[0], "try_failed").remove(0);
    assert_eq!(failed["fault"]["layer"], "sandbox");
    assert_eq!(events(&journals[0], "trial_resumed").remove(0)["whole_steps"], 1);
    let returned = events(&journals[0], "tool_returned");
    assert!(
        returned.iter().any(|one| one["shown"].as_str().unwrap().contains("one")),
        "{returned:#?}"
    );
    assert_eq!(fake.requests().len(), 3, "each response is requested once");
    let report = stage.report(&out);
    assert_eq!(report["tasks"][0]["outcome"], "submitted");
    assert_eq!(report["arms"][0]["infrastructure_faults"], 0, "the trial has its verdict");
    assert_eq!(report["arms"][0]["steps"]["max"], 3);
}

#[test]
fn docker_trial_resumes_after_its_container_is_killed() {
    if !has_docker("docker_trial_resumes_after_its_container_is_killed") {
        return;
    }
    check_sandbox_kill("docker", |out| {
        // Other tests' containers may exist at the same time. The label with the purpose identifies
        // the container of this run's trial.
        let run = fs::read_to_string(out.join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        let arm = &run["arms"][0]["id"].as_str().unwrap()[..12];
        let listed = Command::new("docker")
            .args(["ps", "--no-trunc", "--format", "{{.ID}} {{.Labels}}"])
            .output()
            .unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let line = listed.lines().find(|line| line.contains(arm)).unwrap_or_else(|| {
            panic!("no container of arm {arm} in:\n{listed}");
        });
        let id = line.split(' ').next().unwrap();
        assert!(Command::new("docker").args(["kill", id]).output().unwrap().status.success());
    });
}

/// The mount point of a small disk for the run directory. Dropping this value unmounts the disk.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(self.0);
        mount.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

#[test]
fn full_disk_keeps_recorded_trials() {
    let stage = Stage::new();
    let place = stage.path("small");
    fs::create_dir(&place).unwrap();
    let disk = SmallDisk(&place);
    if !disk.mount("size=192k") {
        let test = "full_disk_keeps_recorded_trials";
        return not_run(test, "ROOT", "mounting needs root");
    }
    let text =
        format!("tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = 8\njobs = 1\n{GOLD_ARM}");
    let config = stage.write_file("run.toml", &text);
    let out = place.join("run");
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let full = stage.proctor(args).output().unwrap();
    let said = String::from_utf8_lossy(&full.stderr).into_owned();
    // The disk may have no space left for the report. In that case, the command fails.
    assert!(matches!(full.status.code(), Some(1 | 3)), "{said}");
    for part in ["No space left on device", "check the free space", "small/run"] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    let report = stage.run(["report", out.to_str().unwrap(), "--format", "json"], 0);
    let before: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let resolved = before["arms"][0]["resolved"].as_u64().unwrap();
    assert!((1..8).contains(&resolved), "some were finished and kept: {before}");
    assert_eq!(before["arms"][0]["complete"], false);
    let verdicts = find_files(&out, "verdict.json");
    let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let times: Vec<_> = verdicts.iter().map(|path| written(path)).collect();

    let grown = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&place).output();
    assert!(grown.unwrap().status.success());
    stage.run(["resume", out.to_str().unwrap()], 0);
    assert_eq!(stage.report(&out)["arms"][0]["resolved"], 8);
    let after: Vec<_> = verdicts.iter().map(|path| written(path)).collect();
    assert_eq!(times, after, "finished trials are not repeated");
}
