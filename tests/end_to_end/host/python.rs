//! Tests the scaffold `python:FILE.py:FUNCTION` with functions that solve the task, and with
//! functions that misbehave in many ways.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;

use super::process::{ArmRecord, base_config};
use crate::stage::{Stage, has_docker, repository_root};

const AGENTS: &str = "tests/end_to_end/host/python_agents.py";
const EXAMPLE: &str = "scaffolds/python/examples/plain_agent.py";

/// Creates a virtual environment in the stage's folder. It contains one package, `marker`.
fn create_venv(stage: &Stage, version: &str) -> PathBuf {
    let venv = stage.path("venv");
    if !venv.is_dir() {
        let made = Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&venv)
            .status();
        assert!(made.unwrap().success());
    }
    let site = fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    let site = site.join("site-packages");
    fs::write(site.join("marker.py"), "VALUE = 'of the environment'\n").unwrap();
    for entry in fs::read_dir(&site).unwrap().flatten() {
        if entry.file_name().to_string_lossy().ends_with(".dist-info") {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    let info = site.join(format!("marker-{version}.dist-info"));
    fs::create_dir(&info).unwrap();
    let metadata = format!("Metadata-Version: 2.1\nName: marker\nVersion: {version}\n");
    fs::write(info.join("METADATA"), metadata).unwrap();
    venv.join("bin/python")
}

/// Returns the configuration of an arm that uses one function.
fn arm_config(name: &str, function: &str, model: &str, lines: &str) -> String {
    format!(
        "[[arms]]\nname = \"{name}\"\nscaffold = \"python:agents.py:{function}\"\nmodel = \"{model}\"\n\
         interpreter = \"venv/bin/python\"\n{lines}\n"
    )
}

fn run(stage: &Stage, kind: &str, arms: &str, models: &[&str], status: i32) -> PathBuf {
    // Use another version in each test. Tests run in parallel, and two environments with the same
    // packages would share one interpreter in the cache.
    static NEXT_VERSION: AtomicU32 = AtomicU32::new(0);
    create_venv(stage, &format!("1.{}", NEXT_VERSION.fetch_add(1, Ordering::Relaxed)));
    fs::copy(repository_root().join(AGENTS), stage.path("agents.py")).unwrap();
    let text = base_config(stage, kind, models) + arms;
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    let mut command = stage.proctor(["run", config.to_str().unwrap(), "--out"]);
    let output = command.arg(&out).env("SOME_API_KEY", "proctor-test-key").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    out
}

fn check_solved(kind: &str) {
    let stage = Stage::new();
    fs::copy(repository_root().join(EXAMPLE), stage.path("plain.py")).unwrap();
    let example = arm_config("example", "drive", "submits", "").replace("agents.py", "plain.py");
    let arms = example
        + &arm_config("ask", "solves", "solves", "")
        + &arm_config("client", "own_client", "solves", "")
        + &arm_config("prints", "prints", "submits", "")
        + &arm_config("coroutine", "coroutine", "submits", "")
        + &arm_config("alone", "solves", "solves", "settings = { endpoint = false }");
    let out = run(&stage, kind, &arms, &["solves", "submits"], 0);
    for (name, steps) in
        [("example", 2), ("ask", 3), ("client", 3), ("prints", 2), ("coroutine", 2), ("alone", 3)]
    {
        let seen = ArmRecord::read(&stage, &out, name);
        assert_eq!(seen.row["outcome"], "submitted", "{name}: {:#}", seen.row);
        assert_eq!(seen.row["resolved"], true, "{name}: {:#}", seen.row);
        assert_eq!(seen.row["integrity"], "clean", "{name}: {:#}", seen.row);
        assert_eq!(
            (seen.row["steps"].as_u64(), seen.response_count()),
            (Some(steps), steps as usize)
        );
    }
    let printed = ArmRecord::read(&stage, &out, "prints").read_file("scaffold/stderr.log");
    assert!(printed.contains("not a message") && printed.contains("neither is this"), "{printed}");
}

#[test]
fn python_function_solves_the_task() {
    check_solved("native");
}

#[test]
fn docker_python_function_solves_the_task() {
    if has_docker("docker_python_function_solves_the_task") {
        check_solved("docker");
    }
}

#[test]
fn each_function_ending_has_its_outcome() {
    let stage = Stage::new();
    let steps = "budget = { steps = 3 }";
    let idle = "settings = { idle_seconds = 3 }";
    let arms = arm_config("steps", "solves", "goes-on", steps)
        + &arm_config("stubborn", "stubborn_client", "goes-on", steps)
        + &arm_config("both", "both", "goes-on", steps)
        + &arm_config("raises", "raises", "solves", "")
        + &arm_config("raises later", "raises_later", "solves", "")
        + &arm_config("returns", "returns", "solves", "")
        + &arm_config("returns later", "returns_later", "solves", "")
        + &arm_config("forever", "forever", "solves", idle);
    let out = run(&stage, "native", &arms, &["goes-on", "solves"], 3);
    for (name, outcome, cause, says) in [
        ("steps", "budget_steps", None, ""),
        ("stubborn", "budget_steps", None, ""),
        ("both", "budget_steps", None, ""),
        ("raises", "infrastructure_fault_setup", None, "a bug before the first request"),
        ("raises later", "scaffold_exited", Some("crashed"), "a bug after the first response"),
        ("returns", "infrastructure_fault_setup", None, "without session.submit()"),
        ("returns later", "scaffold_exited", Some("finished"), "without session.submit()"),
        ("forever", "scaffold_exited", Some("idle"), "made no request for 3 s"),
    ] {
        let seen = ArmRecord::read(&stage, &out, name);
        let row = &seen.row;
        assert_eq!(row["outcome"], outcome, "{name}: {row:#}");
        assert_eq!(row["cause"].as_str(), cause, "{name}: {row:#}");
        let why = format!("{} {}", row["why"], row["fault"]);
        assert!(why.contains(says), "{name}: {row:#}");
        assert_eq!(row["steps"].as_u64().unwrap_or(0), seen.response_count() as u64, "{name}");
    }
    for name in ["steps", "stubborn", "both"] {
        assert_eq!(ArmRecord::read(&stage, &out, name).response_count(), 3, "{name}");
    }
    // The agent raised before it ran the calls of the response.
    let raised = ArmRecord::read(&stage, &out, "raises later");
    let task = raised.row["task"].as_str().unwrap();
    let output = stage.run(["show", out.to_str().unwrap(), task, "raises later"], 0);
    let shown = String::from_utf8_lossy(&output.stdout);
    for says in [
        "not recorded as run]",
        "a bug after the first response",
        "scaffold/stderr.log",
        "raises later/1'` opens the trial's sandbox",
    ] {
        assert!(shown.contains(says), "{says}: {shown}");
    }
    // The commands in the last step ran. No command ran after the rejection.
    let stubborn = ArmRecord::read(&stage, &out, "stubborn");
    assert_eq!(stubborn.read_file("patch.diff").matches("+one").count(), 3);
}

fn check_hostile(kind: &str) {
    let stage = Stage::new();
    let secret = "proctor-secret-of-the-user";
    stage.write_file(secret, "key");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = format!("settings = {{ secret = \"{secret}\", port = {port} }}");
    let arms = arm_config("hostile", "hostile", "submits", &settings);
    let out = run(&stage, kind, &arms, &["submits"], 0);
    let seen = ArmRecord::read(&stage, &out, "hostile");
    let logs = seen.agent_logs();
    assert!(logs.contains(&"marker: of the environment"), "{logs:?} {:#}", seen.row);
    let prefix = format!("prefix: {}", stage.path("venv").display());
    assert!(logs.contains(&prefix.as_str()), "{logs:?}");
    assert!(logs.contains(&"looked"), "{logs:?} {:#}", seen.row);
    assert!(!logs.iter().any(|line| line.starts_with("found: ")), "{logs:?}");
    assert_eq!(seen.row["resolved"], true, "{:#}", seen.row);
}

#[test]
fn hostile_file_has_no_key_no_user_files_and_no_network() {
    check_hostile("native");
}

#[test]
fn docker_hostile_file_has_no_key_no_user_files_and_no_network() {
    if has_docker("docker_hostile_file_has_no_key_no_user_files_and_no_network") {
        check_hostile("docker");
    }
}

/// Returns the id of the arm in the printed plan.
fn planned_arm_id(stage: &Stage, config: &Path) -> String {
    let output = stage.run(["run", config.to_str().unwrap(), "--dry-run"], 0);
    let printed = String::from_utf8_lossy(&output.stdout);
    printed.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn python_arm_id_depends_on_file_and_packages() {
    let plan = |file: &str, text: &str, version: &str| {
        let stage = Stage::new();
        create_venv(&stage, version);
        stage.write_file(file, &format!("def drive(session): ...\n# {text}\n"));
        let arm = format!(
            "[[arms]]\nname = \"a\"\nscaffold = \"python:{file}:drive\"\nmodel = \"solves\"\n\
             interpreter = \"venv/bin/python\"\n"
        );
        let config =
            stage.write_file("run.toml", &(base_config(&stage, "native", &["solves"]) + &arm));
        planned_arm_id(&stage, &config)
    };
    let first = plan("agent.py", "one", "1.0");
    assert_eq!(first, plan("agent.py", "one", "1.0"), "the folder is not part of the arm");
    assert_ne!(first, plan("agent.py", "two", "1.0"));
    assert_ne!(first, plan("agent.py", "one", "2.0"));
}

#[test]
fn python_arm_errors_are_reported_at_their_key() {
    let told = |scaffold: &str, lines: &str| {
        let stage = Stage::new();
        stage.write_file("agent.py", "def drive(session): ...\n");
        stage.write_file("broken.py", "def drive(session:\n");
        let text = base_config(&stage, "native", &["solves"]);
        let text = format!(
            "{text}[[arms]]\nname = \"a\"\nscaffold = \"{scaffold}\"\nmodel = \"solves\"\n{lines}\n"
        );
        let config = stage.write_file("run.toml", &text);
        let output = stage.run(["run", config.to_str().unwrap(), "--dry-run"], 2);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let good = "python:agent.py:drive";
    for (scaffold, lines, says) in [
        ("python", "", "python:FILE.py:FUNCTION"),
        ("python:agent.py", "", "python:FILE.py:FUNCTION"),
        ("python:none.py:drive", "", "key `arms.0.scaffold` (arm `a`): none.py: no such file"),
        ("python:agent.py:dive", "", "has no function `dive` hint: did you mean `drive`?"),
        ("python:broken.py:drive", "", "broken.py is not valid Python"),
        (good, "interpreter = \"no/python\"", "key `arms.0.interpreter` (arm `a`)"),
        (good, "settings = { endpoint = 3 }", "key `arms.0.settings.endpoint`"),
        (good, "budget = { tool_seconds = 5 }", "endpoint = false"),
        ("tools", "interpreter = \"python3\"", "does not run Python"),
    ] {
        let said = told(scaffold, lines);
        assert!(said.contains(says), "{scaffold} {lines}: {said}");
    }
    let stage = Stage::new();
    stage.write_file("agent.py", "def drive(session): ...\n");
    let text = base_config(&stage, "native", &["solves"]);
    let arm = format!(
        "[[arms]]\nname = \"a\"\nscaffold = \"{good}\"\nmodel = \"solves\"\n\
         settings = {{ endpoint = false }}\nbudget = {{ tool_seconds = 5 }}\n"
    );
    let config = stage.write_file("run.toml", &(text + &arm));
    assert!(!planned_arm_id(&stage, &config).is_empty());
}

/// On any machine with the same file and packages, a trial runs the function that was planned.
#[test]
fn resume_finds_file_and_interpreter_again() {
    let stage = Stage::new();
    let arms = arm_config("a", "solves", "no-key", "");
    let cache = stage.path("cache");
    create_venv(&stage, "1.0");
    fs::copy(repository_root().join(AGENTS), stage.path("agents.py")).unwrap();
    let config =
        stage.write_file("run.toml", &(base_config(&stage, "native", &["no-key"]) + &arms));
    let out = stage.path("run");
    let proctor = |args: &[&str]| {
        let output = stage.proctor(args).env("PROCTOR_CACHE", &cache).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Undo the line wrapping for terminals.
        (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (config, out_text) = (config.to_str().unwrap(), out.to_str().unwrap());
    assert_eq!(proctor(&["run", config, "--out", out_text]).0, Some(3));
    let script: Value =
        serde_json::from_slice(&fs::read(stage.path("script.json")).unwrap()).unwrap();
    let healed = script.to_string().replace("401", "429").replace("\"times\":0", "\"times\":1");
    stage.write_file("script.json", &healed);
    // Another version of a package makes another arm.
    fs::remove_dir_all(cache.join("programs")).unwrap();
    create_venv(&stage, "2.0");
    let (status, said) = proctor(&["resume", out_text]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("its packages have changed since the run was planned"), "{said}");
    create_venv(&stage, "1.0");
    let (status, said) = proctor(&["resume", out_text]);
    assert_eq!(status, Some(0), "{said}");
    assert!(ArmRecord::read(&stage, &out, "a").response_count() > 0);
}
