//! Tests the scaffold `process` with the example in the documentation, and with an agent that
//! misbehaves in many ways.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::stage::{DEMO_SOLUTION, Stage, find_files, has_docker, repository_root};

/// An arm: its name, its model, additional lines for its settings, and its budget.
struct ArmSpec {
    name: &'static str,
    model: &'static str,
    settings: String,
    budget: &'static str,
}

fn arm_spec(mode: &'static str, model: &'static str) -> ArmSpec {
    ArmSpec {
        name: mode,
        model,
        settings: format!("mode = \"{mode}\"\nidle_seconds = 3"),
        budget: "steps = 20",
    }
}

/// Returns a command that solves the demo task and contains no quotes.
pub(super) fn solution_command() -> String {
    format!("echo {} | base64 -d | sh", BASE64_STANDARD.encode(DEMO_SOLUTION))
}

/// Returns the script: the responses of each model.
fn script() -> Value {
    let call =
        |line: &str| json!({"tool_calls": [{"name": "shell", "arguments": {"command": line}}]});
    let bash =
        |line: &str| json!({"tool_calls": [{"name": "bash", "arguments": {"command": line}}]});
    let done = bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT");
    let submit = json!({"tool_calls": [{"name": "submit", "arguments": {}}]});
    let conversation = |model: &str, turns: Value, again: bool| json!({"model": model, "turn": turns, "repeat_last": again});
    let fault = json!({"kind": "status", "status": 401, "times": 0});
    json!({"conversation": [
        conversation("solves", json!([call("ls numerals"), call(&solution_command()), {"content": "Done."}]), false),
        conversation("submits", json!([call(&solution_command()), submit]), false),
        conversation("mini", json!([bash("ls numerals"), bash(&solution_command()), done]), false),
        conversation("says", json!([{"content": "Done."}]), true),
        conversation("empty", json!([{"content": "", "usage": {"input": 100, "output": 1}}]), false),
        conversation("goes-on", json!([call("echo one >> steps.txt")]), true),
        conversation("no-key", json!([{"content": "x", "fault": [fault]}]), true),
    ]})
}

/// Writes the demo's first task and the script. Returns the first part of a configuration, with the
/// models for the arms.
pub(super) fn base_config(stage: &Stage, kind: &str, models: &[&str]) -> String {
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    stage.write_file("task.jsonl", &format!("{task}\n"));
    stage.write_file("script.json", &script().to_string());
    let mut text = format!(
        "tasks = [\"task.jsonl\"]\njobs = 3\n[sandbox]\nkind = \"{kind}\"\n[budget]\nwall_seconds = 120\n"
    );
    for model in models {
        text += &format!(
            "[models.{model}]\nbase_url = \"script:script.json\"\nname = \"{model}\"\n\
             price = {{ input = 0.0, output = 0.0 }}\n"
        );
    }
    text
}

/// Runs one arm for each spec. The agent's file is next to the configuration.
fn run(stage: &Stage, kind: &str, agent: &str, arm_specs: &[ArmSpec], status: i32) -> PathBuf {
    fs::copy(repository_root().join(agent), stage.path("agent.py")).unwrap();
    let mut models: Vec<&str> = arm_specs.iter().map(|way| way.model).collect();
    models.sort_unstable();
    models.dedup();
    let mut text = base_config(stage, kind, &models);
    for ArmSpec { name, model, settings, budget } in arm_specs {
        text += &format!(
            "[[arms]]\nname = \"{name}\"\nscaffold = \"process\"\nmodel = \"{model}\"\n\
             budget = {{ {budget} }}\n[arms.settings]\nprogram = \"agent.py\"\n\
             command = [\"python3\", \"/agent/agent.py\"]\n{settings}\n"
        );
    }
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], status);
    out
}

pub(super) struct ArmRecord {
    pub(super) row: Value,
    events: Vec<Value>,
    folder: PathBuf,
}

impl ArmRecord {
    pub(super) fn read(stage: &Stage, out: &Path, arm: &str) -> Self {
        let report = stage.report(out);
        let arms = report["arms"].as_array().unwrap();
        let id = arms.iter().find(|one| one["name"] == arm).unwrap()["arm"].as_str().unwrap();
        let rows = report["tasks"].as_array().unwrap();
        let row = rows.iter().find(|row| row["arm"] == id).unwrap().clone();
        let journals = find_files(&out.join("trials").join(&id[..12]), "trajectory.jsonl");
        let journal =
            journals.iter().find(|path| !path.to_string_lossy().contains("/tries/")).unwrap();
        let lines = fs::read_to_string(journal).unwrap();
        let events = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Self { row, events, folder: journal.parent().unwrap().to_owned() }
    }

    pub(super) fn events_of_kind(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["kind"] == kind).collect()
    }

    pub(super) fn response_count(&self) -> usize {
        self.events_of_kind("model_answered").len()
    }

    pub(super) fn agent_logs(&self) -> Vec<&str> {
        let noted = self.events_of_kind("noted").into_iter();
        noted.filter_map(|event| event["note"]["agent_log"].as_str()).collect()
    }

    pub(super) fn read_file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }
}

const EXAMPLE: &str = "scaffolds/host/examples/agent.py";
const MISBEHAVING_AGENT: &str = "tests/end_to_end/host/agent.py";

/// Checks that the example in the documentation solves the task with each way to submit, and that
/// the same events are recorded as for a built-in loop.
fn check_example(kind: &str) {
    let text = fs::read_to_string(repository_root().join(EXAMPLE)).unwrap();
    assert!(text.lines().count() < 60, "the documentation says: under 60 lines");
    let stage = Stage::new();
    let named = |name, model| ArmSpec { name, settings: String::new(), ..arm_spec("x", model) };
    let ways = [named("by finish", "solves"), named("by submit", "submits")];
    let out = run(&stage, kind, EXAMPLE, &ways, 0);
    for (arm, steps, calls) in [("by finish", 3, 2), ("by submit", 2, 2)] {
        let seen = ArmRecord::read(&stage, &out, arm);
        assert_eq!(seen.row["outcome"], "submitted", "{arm}: {:#}", seen.row);
        assert_eq!(seen.row["resolved"], true, "{arm}: {:#}", seen.row);
        assert_eq!(
            (seen.row["steps"].as_u64(), seen.response_count()),
            (Some(steps), steps as usize)
        );
        let returned = seen.events_of_kind("tool_returned");
        assert_eq!(
            (seen.events_of_kind("tool_called").len(), returned.len()),
            (calls, calls),
            "{arm}"
        );
        assert_eq!(seen.row["integrity"], "clean", "{arm}: {:#}", seen.row);
        // As for a built-in loop, the record contains the tool call of the response and the
        // snapshot of the step.
        let answered = seen.events_of_kind("model_answered");
        let call = &answered[0]["answer"]["tool_calls"][0]["id"];
        assert_eq!(seen.events_of_kind("tool_called")[0]["call_id"], *call, "{arm}");
        assert_eq!(seen.events_of_kind("snapshot_taken").len() as u64, steps + 1, "{arm}");
    }
}

#[test]
fn process_example_solves_the_task() {
    check_example("native");
}

#[test]
fn docker_process_example_solves_the_task() {
    if has_docker("docker_process_example_solves_the_task") {
        check_example("docker");
    }
}

/// Checks every line of the table in `docs/reference/host.md`, and every kind of malicious behavior.
#[test]
fn each_ending_has_its_outcome() {
    let stage = Stage::new();
    // Create a file of the user that the agent tries to find.
    let secret = "proctor-secret-of-the-user";
    stage.write_file(secret, "key");
    let probes = ArmSpec {
        settings: format!("mode = \"probes\"\nidle_seconds = 60\nsecret = \"{secret}\""),
        ..arm_spec("probes", "solves")
    };
    let steps = |mode| ArmSpec { budget: "steps = 3", ..arm_spec(mode, "goes-on") };
    let ways = [
        arm_spec("solve", "solves"),
        arm_spec("early", "solves"),
        arm_spec("text", "solves"),
        probes,
        arm_spec("gives_up", "solves"),
        arm_spec("version", "solves"),
        arm_spec("nothing", "solves"),
        arm_spec("crash", "solves"),
        arm_spec("killed", "solves"),
        ArmSpec {
            settings: "mode = \"memory\"\nidle_seconds = 60".into(),
            ..arm_spec("memory", "solves")
        },
        arm_spec("idle", "solves"),
        arm_spec("chatters", "solves"),
        arm_spec("empty", "empty"),
        arm_spec("garbage", "solves"),
        arm_spec("bytes", "solves"),
        arm_spec("giant", "solves"),
        arm_spec("ids", "solves"),
        arm_spec("unknown", "solves"),
        arm_spec("deaf", "solves"),
        arm_spec("loops", "solves"),
        steps("steps"),
        steps("stubborn"),
        ArmSpec { name: "tokens", budget: "total_tokens = 400", ..arm_spec("solve", "goes-on") },
        ArmSpec {
            name: "time",
            budget: "wall_seconds = 2",
            settings: "mode = \"idle\"".into(),
            ..arm_spec("idle", "solves")
        },
    ];
    let out = run(&stage, "native", MISBEHAVING_AGENT, &ways, 3);
    for (arm, outcome, cause, resolved, says) in [
        ("solve", "submitted", None, true, ""),
        ("early", "submitted", None, true, ""),
        ("text", "submitted", None, true, ""),
        ("probes", "submitted", None, false, ""),
        ("gives_up", "scaffold_exited", Some("finished"), false, "too hard"),
        // These agents ended before they received a response.
        ("version", "infrastructure_fault_setup", None, false, ""),
        ("nothing", "infrastructure_fault_setup", None, false, ""),
        ("crash", "scaffold_exited", Some("crashed"), false, "exit status 1: boom"),
        ("killed", "scaffold_exited", Some("crashed"), false, "signal 9"),
        ("memory", "scaffold_exited", Some("crashed"), false, ""),
        ("idle", "scaffold_exited", Some("idle"), false, "made no request for 3 s"),
        ("chatters", "scaffold_exited", Some("idle"), false, "made no request for 3 s"),
        ("empty", "scaffold_exited", Some("empty_turn"), false, "empty response"),
        ("garbage", "scaffold_exited", Some("crashed"), false, "last: Thinking..."),
        (
            "bytes",
            "scaffold_exited",
            Some("crashed"),
            false,
            "20 lines to standard output that are not messages",
        ),
        ("giant", "scaffold_exited", Some("crashed"), false, "more than 16777216 bytes"),
        ("ids", "scaffold_exited", Some("crashed"), false, "was not made"),
        ("unknown", "scaffold_exited", Some("loop"), false, "25 requests in a row"),
        ("deaf", "scaffold_exited", Some("idle"), false, "made no request"),
        ("loops", "scaffold_exited", Some("loop"), false, "5000 requests since"),
        ("steps", "budget_steps", None, false, ""),
        ("stubborn", "budget_steps", None, false, ""),
        ("tokens", "budget_total_tokens", None, false, ""),
        ("time", "budget_wall", None, false, ""),
    ] {
        let seen = ArmRecord::read(&stage, &out, arm);
        let row = &seen.row;
        assert_eq!(row["outcome"], outcome, "{arm}: {row:#}");
        assert_eq!(row["cause"].as_str(), cause, "{arm}: {row:#}");
        let graded = !outcome.starts_with("infrastructure");
        assert_eq!(row["resolved"].as_bool(), graded.then_some(resolved), "{arm}: {row:#}");
        assert!(row["why"].as_str().unwrap_or_default().contains(says), "{arm}: {row:#}");
        assert_eq!(row["steps"], seen.response_count(), "{arm}");
        assert_ne!(row["integrity"], "contaminated", "{arm}: {row:#}");
    }
    let probes = ArmRecord::read(&stage, &out, "probes");
    assert!(probes.agent_logs().contains(&"failed: "), "{:?}", probes.agent_logs());
    assert!(!probes.read_file("patch.diff").contains("late"), "{}", probes.read_file("patch.diff"));
    assert_eq!(probes.read_file("scaffold/stderr.log").trim(), "-32000");
    let steps = ArmRecord::read(&stage, &out, "steps");
    assert_eq!(steps.read_file("scaffold/stderr.log").trim(), "told: -32000");
    for arm in ["steps", "stubborn"] {
        let seen = ArmRecord::read(&stage, &out, arm);
        assert_eq!(seen.response_count(), 3, "{arm}");
        // The commands in step 3 ran. No command ran after the rejection.
        assert_eq!(seen.read_file("patch.diff").matches("+one").count(), 3, "{arm}");
        let at = |event: &Value| event["t_mono"].as_f64().unwrap();
        let last = seen.events_of_kind("tool_returned");
        let took = at(seen.events_of_kind("patch_collected")[0]) - at(last[last.len() - 1]);
        assert!(took < 5.0, "{arm} took {took} s to end");
    }
    let chatters = ArmRecord::read(&stage, &out, "chatters");
    assert_eq!(chatters.agent_logs().len(), 1000);
    assert!(chatters.agent_logs().iter().all(|text| text.len() == 4096));
}

/// The agent's sandbox is scanned in the same way as the task's. If a program contains the
/// solution, directly or in an archive, it is rejected, and the message names the program.
#[test]
fn host_program_with_the_solution_is_rejected() {
    for packed in [false, true] {
        let stage = Stage::new();
        let folder = stage.path("mine");
        fs::create_dir_all(folder.join("notes")).unwrap();
        fs::copy(repository_root().join(EXAMPLE), folder.join("agent.py")).unwrap();
        let solved = repository_root().join("configs/tasks/numerals/numerals/roman.py");
        let solved = fs::read_to_string(solved).unwrap();
        assert!(solved.contains("def from_roman"), "the source of the task has its feature");
        fs::write(folder.join("notes/old.txt"), solved).unwrap();
        if packed {
            let tar = std::process::Command::new("tar")
                .args(["czf", "notes.tgz", "--remove-files", "notes"])
                .current_dir(&folder)
                .status();
            assert!(tar.unwrap().success());
        }
        let text = base_config(&stage, "native", &["solves"]);
        let text = format!(
            "{text}[[arms]]\nname = \"a\"\nscaffold = \"process\"\nmodel = \"solves\"\n[arms.settings]\n\
             program = \"mine\"\ncommand = [\"python3\", \"/agent/agent.py\"]\n"
        );
        let config = stage.write_file("run.toml", &text);
        let out = stage.path("run");
        stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 3);
        let seen = ArmRecord::read(&stage, &out, "a");
        assert_eq!(seen.row["outcome"], "infrastructure_fault_setup", "{:#}", seen.row);
        assert_eq!(seen.response_count(), 0);
        let outcome = seen.read_file("outcome.json");
        let place = if packed { "/agent/notes.tgz" } else { "/agent/notes/old.txt" };
        assert!(
            outcome.contains("the agent's own sandbox") && outcome.contains(place),
            "{outcome}"
        );
    }
}

/// Whatever the agent does about an endpoint fault, the fault remains a fault.
#[test]
fn endpoint_fault_seen_by_the_agent_stays_a_fault() {
    let stage = Stage::new();
    let out = run(&stage, "native", MISBEHAVING_AGENT, &[arm_spec("solve", "no-key")], 3);
    let seen = ArmRecord::read(&stage, &out, "solve");
    assert_eq!(seen.row["outcome"], "infrastructure_fault_model", "{:#}", seen.row);
    assert!(seen.row["resolved"].is_null(), "{:#}", seen.row);
}

/// The content of the program is part of the arm, but its path is not. A run continues with the
/// program that it was planned with, even if the file has changed since then. If the stored copy is
/// also missing, the run is rejected.
#[test]
fn resume_uses_the_planned_program() {
    let plan = |name: &str, agent: &str| {
        let stage = Stage::new();
        stage.write_file(name, agent);
        let text = base_config(&stage, "native", &["solves"]);
        let text = format!(
            "{text}[[arms]]\nname = \"a\"\nscaffold = \"process\"\nmodel = \"solves\"\n[arms.settings]\n\
             program = \"{name}\"\ncommand = [\"python3\", \"/agent/agent.py\"]\n"
        );
        let config = stage.write_file("run.toml", &text);
        let output = stage.run(["run", config.to_str().unwrap(), "--dry-run"], 0);
        let printed = String::from_utf8_lossy(&output.stdout);
        printed.split_whitespace().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(plan("agent.py", "same"), plan("agent.py", "same"));
    assert_ne!(plan("agent.py", "same"), plan("agent.py", "other"));

    let stage = Stage::new();
    let cache = stage.path("cache");
    let missing = ArmSpec { name: "a", ..arm_spec("solve", "no-key") };
    let out = {
        // The arm's model cannot be called, so no trial in the run finishes.
        let out = stage.path("run");
        fs::copy(repository_root().join(MISBEHAVING_AGENT), stage.path("agent.py")).unwrap();
        let text = base_config(&stage, "native", &["no-key"]);
        let text = format!(
            "{text}[[arms]]\nname = \"{}\"\nscaffold = \"process\"\nmodel = \"{}\"\n[arms.settings]\n\
             program = \"agent.py\"\ncommand = [\"python3\", \"/agent/agent.py\"]\n{}\n",
            missing.name, missing.model, missing.settings
        );
        let config = stage.write_file("run.toml", &text);
        let mut command = stage.proctor(["run", config.to_str().unwrap(), "--out"]);
        let status = command.arg(&out).env("PROCTOR_CACHE", &cache).output().unwrap().status;
        assert_eq!(status.code(), Some(3));
        out
    };
    // Now the endpoint works again, but the user has changed the agent.
    let healed = script().to_string().replace("401", "429").replace("\"times\":0", "\"times\":1");
    stage.write_file("script.json", &healed);
    fs::write(stage.path("agent.py"), "raise SystemExit('another one')").unwrap();
    let resume = || {
        let mut command = stage.proctor(["resume", out.to_str().unwrap()]);
        command.env("PROCTOR_CACHE", &cache).output().unwrap()
    };
    fs::rename(cache.join("programs"), cache.join("elsewhere")).unwrap();
    let output = resume();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("has changed since the run was planned"), "{said}");
    fs::remove_dir_all(cache.join("programs")).unwrap();
    fs::rename(cache.join("elsewhere"), cache.join("programs")).unwrap();
    let output = resume();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let seen = ArmRecord::read(&stage, &out, "a");
    assert_ne!(seen.row["outcome"], "infrastructure_fault_model", "{:#}", seen.row);
    assert!(seen.response_count() > 0, "{:#}", seen.row);
}

/// A mistake is reported with its key before anything runs.
#[test]
fn host_program_errors_are_reported_at_their_key() {
    let told = |settings: &str| {
        let stage = Stage::new();
        let text = base_config(&stage, "native", &["solves"]);
        let text = format!(
            "{text}[[arms]]\nname = \"a\"\nscaffold = \"process\"\nmodel = \"solves\"\n{settings}\n"
        );
        let config = stage.write_file("run.toml", &text);
        let output = stage.run(["run", config.to_str().unwrap(), "--dry-run"], 2);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = told("");
    assert!(said.contains("needs a `command`") && said.contains("agent.py"), "{said}");
    let said = told("settings = { command = [\"x\"], program = \"none\" }");
    assert!(said.contains("key `arms.0.settings.program` (arm `a`)"), "{said}");
    assert!(said.contains("No such file"), "{said}");
    let said = told("settings = { command = [\"x\"], idle_second = 3 }");
    assert!(said.contains("did you mean `idle_seconds`?"), "{said}");
}
