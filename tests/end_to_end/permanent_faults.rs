//! Tests that persistent faults are not retried, neither in the same trial nor in the rest of the
//! run.

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use fake_llm::{FakeLlm, Script};

use crate::not_run::not_run;
use crate::{
    resume::wait_for,
    stage::{Stage, events, find_arm, find_files, has_docker},
};

const GOLD_ARM: &str = "[[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n";

/// Returns a task that has no setup commands and whose repository contains one file. `overrides`
/// overrides keys of the task.
fn task_json(id: &str, overrides: &str) -> String {
    let base = serde_json::json!({
        "schema_version": 1, "id": id, "statement": "s", "environment": {"base": "host"},
        "source": {"path": "source"}, "fail_to_pass": ["t.py::test"],
        "test_command": ["/usr/bin/python3", "-m", "pytest"],
        "gold": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n",
    });
    let mut base = base.as_object().unwrap().clone();
    base.extend(serde_json::from_str::<serde_json::Map<_, _>>(overrides).unwrap());
    serde_json::to_string(&base).unwrap()
}

fn write_config(stage: &Stage, tasks: &[String], extra_lines: &str) -> (PathBuf, PathBuf) {
    let source = stage.path("source");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("a.txt"), "one\n").unwrap();
    let rows = stage.write_file("tasks.jsonl", &(tasks.join("\n") + "\n"));
    let text = format!("tasks = [\"{}\"]\nattempts = 4\njobs = 1\n{extra_lines}", rows.display());
    (stage.write_file("run.toml", &text), stage.path("run"))
}

/// Runs Proctor, which must exit with this status. Returns its messages.
fn run_stderr(stage: &Stage, config: &Path, out: &Path, status: i32) -> String {
    let done = stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], status);
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn failed_tries(out: &Path) -> Vec<serde_json::Value> {
    let journals = find_files(&out.join("trials"), "trajectory.jsonl");
    journals.iter().flat_map(|journal| events(journal, "try_failed")).collect()
}

#[test]
fn unpreparable_task_is_tried_once_and_other_tasks_run() {
    let archive =
        format!(r#"{{"source": {{"archive": "other.tar.gz", "sha256": "{}"}}}}"#, "0".repeat(64));
    let mask = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+y\n";
    let mask = serde_json::json!({ "mask": mask }).to_string();
    let cases = [
        // The setup of this task removes the work directory.
        (
            "no-folder",
            "setup",
            "missing",
            r#"{"environment": {"base": "host", "setup": ["cd / && rm -r /testbed"]}}"#,
        ),
        (
            "bad-line",
            "environment",
            "setup_line",
            r#"{"environment": {"base": "host", "setup": ["exit 3"]}}"#,
        ),
        ("other-source", "environment", "invalid", &archive),
        ("no-mask", "setup", "invalid", &mask),
        ("no-user", "setup", "missing", r#"{"user": "nobody-knows"}"#),
    ];
    let stage = Stage::new();
    stage.write_file("other.tar.gz", "not what the task names");
    let mut tasks: Vec<_> = cases.iter().map(|(id, .., over)| task_json(id, over)).collect();
    // This task fails only when its tests are run, because their interpreter is missing.
    let blind = r#"{"test_command": ["/nowhere/python", "-m", "pytest"]}"#;
    tasks.push(task_json("blind", blind));
    let (config, out) = write_config(&stage, &tasks, GOLD_ARM);
    let said = run_stderr(&stage, &config, &out, 3);
    for (id, layer, cause, _) in cases {
        let journals = find_files(&out.join("trials"), "trajectory.jsonl");
        let of_task = |path: &&PathBuf| path.components().any(|part| part.as_os_str() == id);
        let journals: Vec<_> = journals.iter().filter(of_task).collect();
        let failed: Vec<_> = journals.iter().flat_map(|path| events(path, "try_failed")).collect();
        for event in &failed {
            let found = (&event["fault"]["layer"], &event["fault"]["cause"]);
            assert_eq!(found, (&layer.into(), &cause.into()), "{id}: {event}");
            assert_eq!(event["will_retry"], false, "{id}: {event}");
        }
        // The first trial is enough to find that the task cannot be run.
        assert_eq!((failed.len(), journals.len()), (1, 1), "{id}: {said}");
    }
    // All of these cases halt their task, but the other task ran once: its patch exists.
    assert_eq!(find_files(&out.join("trials"), "patch.diff").len(), 1, "{said}");
    assert_eq!(said.matches("3 trials not started").count(), cases.len() + 1, "{said}");
    assert_eq!(said.matches("blind gold: no verdict").count(), 1, "{said}");
}

#[test]
fn repeated_build_failures_halt_the_plan_with_one_message() {
    let stage = Stage::new();
    // Each build seems to fail for a different reason, but all of them fail because of the same
    // registry.
    let line = |number: usize| {
        format!(r#"{{"environment": {{"base": "host", "setup": ["echo {number}; false"]}}}}"#)
    };
    let tasks: Vec<_> =
        (0..9).map(|number| task_json(&format!("t{number}"), &line(number))).collect();
    let (config, out) = write_config(&stage, &tasks, GOLD_ARM);
    let first = run_stderr(&stage, &config, &out, 3);
    assert_eq!(failed_tries(&out).len(), 3, "{first}");
    assert_eq!(first.matches("halted:").count(), 1, "{first}");
    assert!(first.contains("33 trials not started"), "{first}");
    assert!(first.contains("proctor resume"), "{first}");

    // `resume` must not start with the tasks that halted the run.
    let resumed = stage.run(["resume", out.to_str().unwrap()], 3);
    let resumed = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(
        resumed.contains("t3 gold: started") && !resumed.contains("t0 gold: started"),
        "{resumed}"
    );
}

/// A script with a quick step, then a slow response, then a submission.
const SLOW_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo one > one.txt" }
[[conversation.turn]]
delay_seconds = 3.0
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

/// If a trial failed before it could start, its record is still complete, and `resume` runs the
/// trial.
#[test]
fn resume_runs_trial_that_failed_before_starting() {
    let stage = Stage::new();
    let archive = stage.path("late.tar.gz");
    fs::create_dir(stage.path("late")).unwrap();
    fs::write(stage.path("late").join("a.txt"), "one\n").unwrap();
    let packed = Command::new("tar")
        .arg("czf")
        .arg(&archive)
        .args(["-C", stage.path("").to_str().unwrap(), "late"])
        .status();
    assert!(packed.unwrap().success());
    let whole = fs::read(&archive).unwrap();
    let sum = Command::new("sha256sum").arg(&archive).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    // Truncate the archive, as if its download had been interrupted.
    fs::write(&archive, &whole[..whole.len() / 2]).unwrap();
    let source = serde_json::json!({"source": {
        "archive": "late.tar.gz", "sha256": sum.split_whitespace().next().unwrap()
    }});
    let late = task_json("late", &source.to_string());
    let (config, out) = write_config(&stage, &[late], GOLD_ARM);
    let told = run_stderr(&stage, &config, &out, 3);
    assert!(told.contains("environment fault") && !told.contains("damaged"), "{told}");
    let verify = ["report", out.to_str().unwrap(), "--verify"];
    let verified = stage.run(verify, 0);
    let text = String::from_utf8_lossy(&[verified.stdout, verified.stderr].concat()).into_owned();
    assert!(!text.contains("damaged"), "{text}");

    // Write the format of earlier versions, in which the journal of such a trial starts with the
    // failure.
    for journal in find_files(&out.join("trials"), "trajectory.jsonl") {
        let kept = fs::read_to_string(&journal).unwrap();
        assert!(kept.lines().next().unwrap().contains("trial_started"), "{kept}");
        let begun = !journal.to_str().unwrap().contains("/1/");
        let lines: Vec<_> = kept.lines().skip(usize::from(!begun)).collect();
        fs::write(&journal, lines.join("\n") + "\n").unwrap();
    }
    fs::write(&archive, &whole).unwrap();
    stage.proctor(["resume", out.to_str().unwrap()]).output().unwrap();
    let report = stage.report(&out);
    // If the host has no pytest, the remaining trials are not started.
    assert!(find_arm(&report, "gold")["outcomes"]["submitted"].as_u64() >= Some(1), "{report}");
}

fn config_text(base_url: &str, kind: &str) -> String {
    format!(
        "tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = 3\njobs = 1\n\
         [sandbox]\nkind = \"{kind}\"\n\
         [[arms]]\nname = \"asks\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
         [models.fake]\nbase_url = \"{base_url}\"\nname = \"fake\"\n"
    )
}

/// A small disk. Dropping this value unmounts it.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(mount_point: PathBuf) -> Option<Self> {
        fs::create_dir(&mount_point).unwrap();
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&mount_point).output();
        done.is_ok_and(|done| done.status.success()).then_some(Self(mount_point))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Runs nine trials, and checks that the run halts. From the second trial on, the run directory
/// cannot be written to.
fn check_record_fault_halts(
    out: &Path,
    stage: &Stage,
    cause_fault: impl Fn(),
    repair: impl Fn(),
    statuses: &[i32],
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(SLOW_SCRIPT).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let text = config_text(&fake.base_url(), "native").replace("attempts = 3", "attempts = 9");
    let config = stage.write_file("run.toml", &text);
    let mut command =
        stage.proctor(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the second trial's slow answer", || (fake.requests().len() == 4).then_some(()));
    cause_fault();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    repair();
    assert!(done.status.code().is_some_and(|code| statuses.contains(&code)), "{said}");
    assert_eq!(said.matches("halted: record fault").count(), 1, "{said}");
    assert!(!said.contains("#6: started"), "only the first few trials should start: {said}");
    let report = stage.report(out);
    let graded = find_arm(&report, "asks")["graded"].as_u64().unwrap() as usize;
    assert!((1..3).contains(&graded), "what was finished is kept: {said}");
    let before = fake.requests().len();
    stage.run(["resume", out.to_str().unwrap()], 0);
    assert_eq!(find_arm(&stage.report(out), "asks")["graded"], 9);
    let again = fake.requests().len() - before;
    assert!(again <= (9 - graded) * 2, "what was delivered is not paid twice: {again}");
}

#[test]
fn full_run_directory_halts_the_plan() {
    let stage = Stage::new();
    let Some(disk) = SmallDisk::mount(stage.path("disk")) else {
        let test = "full_run_directory_halts_the_plan";
        return not_run(test, "ROOT", "mounting needs root");
    };
    let filler = disk.0.join("filler");
    let fill = || {
        let done =
            Command::new("dd").args(["if=/dev/zero", "bs=1k"]).arg(dd_output_arg(&filler)).output();
        assert!(!done.unwrap().status.success(), "the disk is full");
    };
    let free = || fs::remove_file(&filler).unwrap();
    // The last trial that cannot be finished may leave no space for the report. In that case, the
    // command fails.
    check_record_fault_halts(&disk.0.join("run"), &stage, fill, free, &[1, 3]);
}

fn dd_output_arg(path: &Path) -> String {
    format!("of={}", path.display())
}

#[test]
fn read_only_run_directory_halts_the_plan() {
    let stage = Stage::new();
    let out = stage.path("run");
    let task = || {
        let arm = fs::read_dir(out.join("trials")).unwrap().next().unwrap().unwrap().path();
        fs::read_dir(arm).unwrap().next().unwrap().unwrap().path()
    };
    let change = |flag: &str| {
        let done = Command::new("chattr").arg(flag).arg(task()).output();
        done.is_ok_and(|done| done.status.success())
    };
    fs::create_dir_all(out.join("trials/probe/probe")).unwrap();
    let can = change("+i") && change("-i");
    fs::remove_dir_all(&out).unwrap();
    if !can {
        let test = "read_only_run_directory_halts_the_plan";
        return not_run(test, "ROOT", "no immutable folders here (chattr +i)");
    }
    let spoil = || assert!(change("+i"));
    let repair = || assert!(change("-i"));
    check_record_fault_halts(&out, &stage, spoil, repair, &[3]);
}

/// Removes a built environment while the run is in progress, and checks that it is built again.
fn check_removal_during_run(kind: &str, cache: &Path, remove: impl Fn()) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(SLOW_SCRIPT).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let own = r#"{"environment": {"base": "host", "setup": ["true; : PID"]}}"#;
    let own = own.replace("PID", &std::process::id().to_string());
    // Four tasks use the same environment. If grading one task finds a problem, the others are not
    // halted.
    let tasks: Vec<_> = (0..4).map(|number| task_json(&format!("own-{number}"), &own)).collect();
    let (config, out) = write_config(&stage, &tasks, "");
    let arms = config_text(&fake.base_url(), kind).split_once("jobs = 1\n").unwrap().1.to_owned();
    // With so few trials, no preflight request is sent to the model.
    let text = fs::read_to_string(&config).unwrap().replace("attempts = 4", "attempts = 1") + &arms;
    fs::write(&config, text).unwrap();
    let mut command =
        stage.proctor(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    command.env("PROCTOR_CACHE", cache);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the first trial's slow answer", || (fake.requests().len() == 2).then_some(()));
    remove();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(find_files(&out.join("trials"), "patch.diff").len(), 4, "{said}");
    assert_eq!(said.matches("environment built").count(), 2, "{said}");
    let faults = failed_tries(&out);
    assert!(faults.iter().all(|event| event["fault"]["cause"] == "gone"), "{faults:?}\n{said}");
    assert_eq!(fake.requests().len(), 8, "no response was requested twice");
}

#[test]
fn removed_layer_is_rebuilt_during_a_run() {
    let cache = tempfile::tempdir().unwrap();
    check_removal_during_run("native", cache.path(), || {
        fs::remove_dir_all(cache.path().join("native/layers")).unwrap();
    });
}

#[test]
fn docker_removed_image_is_rebuilt_during_a_run() {
    if !has_docker("docker_removed_image_is_rebuilt_during_a_run") {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    check_removal_during_run("docker", cache.path(), || {
        let list = ["ps", "--no-trunc", "--format", "{{.Image}} {{.Label \"proctor.lock\"}}"];
        let listed = Command::new("docker").args(list).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let own = cache.path().canonicalize().unwrap();
        let line = listed.lines().find(|line| line.contains(own.to_str().unwrap()));
        let image = line.expect("a container of this run").split(' ').next().unwrap();
        let done = Command::new("docker").args(["rmi", "-f", image]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    });
}

/// Starts a proxy for the real engine that fails every request to remove a container.
fn start_engine_without_removal(socket_path: &Path) {
    let listener = UnixListener::bind(socket_path).unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || proxy_without_removal(client));
        }
    });
}

fn proxy_without_removal(mut client: UnixStream) -> Option<()> {
    let mut engine = UnixStream::connect("/var/run/docker.sock").ok()?;
    let (mut from, mut to) = (engine.try_clone().ok()?, client.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut piece = vec![0; 64 << 10];
    loop {
        let read = client.read(&mut piece).ok()?;
        let request = &piece[..read];
        if request.starts_with(b"DELETE /") {
            let body = r#"{"message": "device or resource busy"}"#;
            let head = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json";
            let length = body.len();
            write!(client, "{head}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        } else if read == 0 {
            return engine.shutdown(Shutdown::Write).ok();
        } else {
            engine.write_all(request).ok()?;
        }
    }
}

#[test]
fn docker_trial_counts_even_if_its_sandbox_cannot_be_closed() {
    if !has_docker("docker_trial_counts_even_if_its_sandbox_cannot_be_closed") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(SLOW_SCRIPT).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let text = config_text(&fake.base_url(), "docker").replace("attempts = 3", "attempts = 1");
    let (config, out) = (stage.write_file("run.toml", &text), stage.path("run"));
    let socket = stage.path("engine.sock");
    start_engine_without_removal(&socket);
    let mut command =
        stage.proctor(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let done = command.env("DOCKER_HOST", format!("unix://{}", socket.display())).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("its sandbox could not be closed"), "{said}");
    assert_eq!(fake.requests().len(), 2, "no request was repeated: {said}");
    assert!(failed_tries(&out).is_empty(), "{said}");
    let report = stage.report(&out);
    assert_eq!(find_arm(&report, "asks")["graded"], 1, "its grading is kept");
    // The container that is left now belongs to a dead run, so the next command removes it.
    let next = stage.run(["resume", out.to_str().unwrap()], 0);
    let next = String::from_utf8_lossy(&next.stderr).into_owned();
    assert!(next.contains("removed leftovers from a crashed run: container"), "{next}");
}
