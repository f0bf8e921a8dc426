//! Tests that a run can be resumed after its runtime was killed with `kill -9`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use fake_llm::{FakeLlm, Script};

use crate::stage::{Stage, find_files, has_docker};

/// A script with two quick steps, then a slow one, then a submission.
const SLOW_SCRIPT: &str = r#"
[[conversation]]
[[conversation.turn]]
[[conversation.turn.tool_calls]]
name = "shell"
arguments = { command = "echo one > one.txt; sleep 300 & echo $!" }
[[conversation.turn]]
delay_seconds = 3.0
[[conversation.turn.tool_calls]]
name = "submit"
arguments = {}
"#;

/// Returns the script, and the command line of the process that the script leaves behind. The
/// command line is different in each test, because tests run in parallel.
fn slow_script() -> (Script, String) {
    static NEXT: AtomicU32 = AtomicU32::new(301);
    let sleeper = format!("sleep {}", NEXT.fetch_add(1, Ordering::Relaxed));
    (toml::from_str(&SLOW_SCRIPT.replace("sleep 300", &sleeper)).unwrap(), sleeper)
}

pub fn wait_for<T>(description: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "waited too long for {description}");
        sleep(Duration::from_millis(50));
    }
}

/// Starts Proctor and sends two interrupts. The first is sent when `is_ready` accepts the messages
/// so far, and the second when Proctor has acknowledged the first. Proctor must exit with the
/// status of an interrupted run.
pub fn interrupt_twice(stage: &Stage, args: &[&str], is_ready: impl Fn(&str) -> bool) {
    let log = stage.path("log");
    let mut command = stage.proctor(args);
    command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let pid = child.id().to_string();
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let interrupt = || {
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    };
    wait_for("the work to interrupt", || is_ready(&said()).then_some(()));
    interrupt();
    wait_for("the first ^C", || said().contains("finishing any steps").then_some(()));
    interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", said());
}

fn verdict_times(out: &Path) -> BTreeMap<PathBuf, SystemTime> {
    find_files(&out.join("trials"), "verdict.json")
        .into_iter()
        .map(|path| (path.clone(), fs::metadata(path).unwrap().modified().unwrap()))
        .collect()
}

/// Returns the processes whose command line or root directory contains this test's marker.
fn processes_with_marker(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) {
            found.push(line);
        }
    }
    found
}

fn check_kill_and_resume(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (script, sleeper) = slow_script();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\nattempts = 3\njobs = 1\n\
             [sandbox]\nkind = \"{kind}\"\n\
             [[arms]]\nname = \"slow\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let out = stage.path("run");
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut child =
        stage.proctor(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Kill the runtime while the second trial waits for its second response.
    wait_for("the first verdict", || (!verdict_times(&out).is_empty()).then_some(()));
    wait_for("the second trial's first step", || {
        (find_files(&out.join("trials"), "trajectory.jsonl").len() == 2
            && fake.requests().len() >= 4)
            .then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let before = verdict_times(&out);
    assert_eq!(before.len(), 1);
    wait_for("the sandbox's processes to end with the runtime", || {
        (kind == "docker" || processes_with_marker(&sleeper).is_empty()).then_some(())
    });

    let asked = fake.requests().len();
    let mut resume = stage.proctor(["resume", out.to_str().unwrap()]);
    let resumed = resume.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let runtimes = [child.id().to_string(), resumed.id().to_string()];
    let resumed = resumed.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    if kind == "docker" {
        for pid in runtimes {
            assert_eq!(count_containers(&pid), 0, "containers left");
        }
    }
    let after = verdict_times(&out);
    assert_eq!(after.len(), 3);
    for (path, written) in &before {
        assert_eq!(after[path], *written, "{} was written again", path.display());
    }
    assert_eq!(fake.requests().len() - asked, 3, "the answer in flight, and a trial of two");
    assert_eq!(
        find_files(&out.join("trials"), "trajectory.jsonl").len(),
        3,
        "each trial must continue in the same try"
    );
    let report = stage.report(&out);
    assert_eq!(report["arms"][0]["graded"], 3);
    assert_eq!(report["arms"][0]["complete"], true);
    assert!(processes_with_marker(&sleeper).is_empty(), "{:?}", processes_with_marker(&sleeper));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let home = stage.dir.path().to_str().unwrap();
    assert!(!mounts.contains(home), "{mounts}");
}

/// Counts the containers that the runtime with this process id created, whether they are running or
/// not.
fn count_containers(pid: &str) -> usize {
    let list = ["ps", "-a", "--format", "{{.Label \"proctor.runtime\"}}"];
    let listed = Command::new("docker").args(list).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    listed.lines().filter(|runtime| runtime.starts_with(&format!("{pid}-"))).count()
}

/// Returns the cgroups in a folder that the runtime with this process id created.
fn control_groups(folder: &Path, pid: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(&format!("proctor.{pid}-")) {
            found.push(entry.path());
        } else {
            found.extend(control_groups(&entry.path(), pid));
        }
    }
    found
}

/// Checks that a terminating signal closes the sandboxes, that a message says how to continue, and
/// that no outcome is recorded.
fn check_interrupt(kind: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (script, _) = slow_script();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[sandbox]\nkind = \"{kind}\"\n\
             [[arms]]\nname = \"slow\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let out = stage.path("run");
    let args = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut command = stage.proctor(args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the second request", || (fake.requests().len() == 2).then_some(()));
    let pid = child.id().to_string();
    if kind == "docker" {
        assert_eq!(count_containers(&pid), 1);
    }
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert!(said.contains(&format!("`proctor resume {}`", out.display())), "{said}");
    assert!(find_files(&out, "outcome.json").is_empty());
    let left = control_groups(Path::new("/sys/fs/cgroup"), &pid);
    assert!(left.is_empty(), "cgroups: {left:?}");
    if kind == "docker" {
        assert_eq!(count_containers(&pid), 0, "containers left");
    }
    stage.run(["resume", out.to_str().unwrap()], 0);
    assert_eq!(stage.report(&out)["tasks"][0]["outcome"], "submitted");
}

/// The address of a model is not part of the arm, so a run can continue if its endpoint has moved.
#[test]
fn resume_accepts_another_endpoint_without_changing_the_arm() {
    let stage = Stage::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = "[default]\n[[default.tool_calls]]\nname = \"submit\"\narguments = {}\n";
    let fake = runtime.block_on(FakeLlm::start(toml::from_str(script).unwrap())).unwrap();
    // The listener is closed, so nothing listens on this port.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"a\"\nscaffold = \"tools\"\n\
             model = \"moves/away\"\n[models.\"moves/away\"]\nbase_url = \"http://{gone}/v1\"\n\
             name = \"fake\"\ntemperature = 0.5\n"
        ),
    );
    let out = stage.path("run");
    let out = out.to_str().unwrap();
    stage.run(["run", config.to_str().unwrap(), "--out", out], 3);
    let before = stage.report(std::path::Path::new(out));
    for (set, says) in [
        (
            "models.\"moves/away\".temperature=1",
            "`temperature` of the model `moves/away` is part of",
        ),
        ("models.other.base_url=http://h/v1", "models: `moves/away`"),
        ("models.\"moves/away\".base_url=ftp://h", "not an http(s) URL"),
        ("jobs=3", "this key is part of the plan"),
    ] {
        let said = stage.run(["resume", out, "--set", set], 2);
        let said = String::from_utf8(said.stderr).unwrap().replace("\n ", " ");
        assert!(said.contains(says) && said.contains("hint: "), "{set}: {said}");
    }
    let set = format!("models.\"moves/away\".base_url={}", fake.base_url());
    stage.run(["resume", out, "--set", &set], 0);
    assert!(!fake.requests().is_empty());
    let after = stage.report(std::path::Path::new(out));
    assert_eq!(after["arms"][0]["arm"], before["arms"][0]["arm"]);
    assert_eq!(after["arms"][0]["complete"], true, "{after:#}");
    assert!(after["remarks"].to_string().contains("hanged `base_url` of the model `moves/away`"));
}

#[test]
fn interrupted_run_is_resumed_completely() {
    check_interrupt("native");
}

#[test]
fn docker_interrupted_run_leaves_no_container() {
    if has_docker("docker_interrupted_run_leaves_no_container") {
        check_interrupt("docker");
    }
}

#[test]
fn killed_run_is_resumed_completely() {
    check_kill_and_resume("native");
}

#[test]
fn docker_killed_run_is_resumed_and_leaves_no_container() {
    if !has_docker("docker_killed_run_is_resumed_and_leaves_no_container") {
        return;
    }
    check_kill_and_resume("docker");
}
