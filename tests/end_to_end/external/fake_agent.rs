//! Tests an agent that a user's manifest defines: a shell script that calls curl.

use std::path::PathBuf;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::stage::{DEMO_SOLUTION, Stage, find_files, has_docker, repository_root};

/// Returns a command that solves the demo task and contains no quotes.
fn solve_command() -> String {
    format!("echo {} | base64 -d | sh", BASE64_STANDARD.encode(DEMO_SOLUTION))
}

/// An arm of the fake agent: its behavior and its model.
struct ArmSpec {
    name: &'static str,
    mode: &'static str,
    model: &'static str,
    budget: &'static str,
    /// Additional keys of the arm, one per line.
    keys: &'static str,
}

fn arm_spec(name: &'static str, mode: &'static str, model: &'static str) -> ArmSpec {
    ArmSpec { name, mode, model, budget: "steps = 20", keys: "" }
}

/// Runs one arm for each spec on the demo's first task.
fn run(stage: &Stage, kind: &str, arm_specs: &[ArmSpec], status: i32) -> PathBuf {
    let demo = std::fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    run_task(stage, kind, arm_specs, &task, status)
}

fn run_task(
    stage: &Stage,
    kind: &str,
    arm_specs: &[ArmSpec],
    task: &Value,
    status: i32,
) -> PathBuf {
    let agent =
        std::fs::read_to_string(repository_root().join("tests/end_to_end/external/agent.sh"))
            .unwrap();
    stage.write_file(
        "my-cli.toml",
        &format!(
            r#"
name = "my-cli"
version = "1.0"
api = "chat"
idle_seconds = 5
[command]
argv = ["{{{{ home }}}}/bin/agent", "{{{{ settings.mode }}}}", "{{{{ prompt }}}}"]
[env]
ENDPOINT = "{{{{ endpoint }}}}"
TOKEN = "{{{{ token }}}}"
MODEL = "{{{{ model }}}}"
[[files]]
path = "prompt.json"
content = "{{{{ prompt | tojson }}}}"
[[files]]
path = "bin/agent"
executable = true
content = '''{{% raw %}}{}{{% endraw %}}'''
[stop]
leave_seconds = 0.5
grace_seconds = 1.0
refusals = 10
[log]
files = ["body", "none/**"]
[[exit]]
means = "approval"
output = ["Allow this command?"]
[[exit]]
means = "loop"
output = ["Loop detected"]
[[exit]]
means = "finished"
record = {{ type = "error", message = "Too many turns*" }}
[repository]
settings = [".my-cli.json", ".my-cli"]
knowledge = ["AGENTS.md", "MY-CLI.md"]
[requests.sub_agents]
header = "x-agent-id"
[settings]
mode = "solve"
"#,
            agent.replace("'''", "")
        ),
    );
    let call =
        |line: &str| json!({"tool_calls": [{"name": "shell", "arguments": {"command": line}}]});
    let conversation = |model: &str, turns: Value, again: bool| json!({"model": model, "turn": turns, "repeat_last": again});
    let fault = json!({"kind": "status", "status": 401, "times": 0});
    let rejected = json!({"kind": "status", "status": 400, "times": 0});
    let cut = json!({"kind": "truncate", "times": 0});
    let script = json!({"conversation": [
        conversation("solves", json!([call("ls numerals"), call(&solve_command()), {"content": "Done."}]), false),
        // The only token of the response is the one that ends the turn.
        conversation("empty", json!([{"content": "", "usage": {"input": 100, "output": 1}}]), false),
        conversation("goes-on", json!([call("echo one >> /testbed/steps.txt")]), true),
        conversation("no-key", json!([{"content": "x", "fault": [fault]}]), true),
        conversation("breaks-off", json!([{"content": "one piece after another", "fault": [cut]}]), true),
        conversation("says-so", json!([{"content": "Loop detected. Allow this command?"}]), false),
        conversation("rejects", json!([{"content": "x", "fault": [rejected]}]), true),
    ]});
    stage.write_file("script.json", &script.to_string());
    let mut text = format!(
        "tasks = [\"task.jsonl\"]\njobs = 3\n[sandbox]\nkind = \"{kind}\"\n[budget]\nwall_seconds = 120\n"
    );
    let mut models: Vec<&str> = arm_specs.iter().map(|way| way.model).collect();
    models.sort_unstable();
    models.dedup();
    for model in models {
        text += &format!(
            "[models.{model}]\nbase_url = \"script:script.json\"\nname = \"{model}\"\n\
             price = {{ input = 0.0, output = 0.0 }}\n"
        );
    }
    for ArmSpec { name, mode, model, budget, keys } in arm_specs {
        text += &format!(
            "[[arms]]\nname = \"{name}\"\nscaffold = \"my-cli.toml\"\nmodel = \"{model}\"\n\
             settings = {{ mode = \"{mode}\" }}\nbudget = {{ {budget} }}\n{keys}\n"
        );
    }
    stage.write_file("task.jsonl", &format!("{task}\n"));
    let config = stage.write_file("run.toml", &text);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], status);
    out
}

/// Returns an arm's row in the report and the events of its trial.
fn arm_row_and_events(stage: &Stage, out: &std::path::Path, arm: &str) -> (Value, Vec<Value>) {
    let report = stage.report(out);
    let arms = report["arms"].as_array().unwrap();
    let id =
        arms.iter().find(|one| one["name"] == arm).unwrap()["arm"].as_str().unwrap().to_owned();
    let row = report["tasks"].as_array().unwrap().iter().find(|row| row["arm"] == id.as_str());
    let journals = find_files(&out.join("trials").join(&id[..12]), "trajectory.jsonl");
    let journal = journals.iter().find(|path| !path.to_string_lossy().contains("/tries/")).unwrap();
    let lines = std::fs::read_to_string(journal).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (row.unwrap().clone(), events)
}

fn events_of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

/// Runs one arm for each way in which a trial can end.
fn check_endings(kind: &str) {
    let stage = Stage::new();
    let ways = [
        arm_spec("solve", "solve", "solves"),
        arm_spec("daemon", "daemon", "solves"),
        arm_spec("works", "works", "solves"),
        arm_spec("crash", "crash", "solves"),
        arm_spec("idle", "idle", "solves"),
        arm_spec("approval", "approval", "solves"),
        arm_spec("loop", "loop", "solves"),
        arm_spec("record", "record", "solves"),
        arm_spec("says", "says", "says-so"),
        arm_spec("told", "told", "solves"),
        arm_spec("noisy", "noisy", "solves"),
        arm_spec("empty", "empty", "empty"),
        ArmSpec { budget: "steps = 3", ..arm_spec("stubborn", "stubborn", "goes-on") },
        ArmSpec { budget: "steps = 3", ..arm_spec("shrugs", "shrugs", "goes-on") },
        ArmSpec { budget: "total_tokens = 400", ..arm_spec("tokens", "solve", "goes-on") },
    ];
    let out = run(&stage, kind, &ways, 0);
    for (arm, outcome, cause, resolved) in [
        ("solve", "submitted", None, true),
        ("daemon", "submitted", None, true),
        ("works", "submitted", None, true),
        ("crash", "scaffold_exited", Some("crashed"), false),
        ("idle", "scaffold_exited", Some("idle"), false),
        ("approval", "scaffold_exited", Some("approval"), false),
        ("loop", "scaffold_exited", Some("loop"), false),
        ("record", "scaffold_exited", Some("finished"), false),
        // Text from the model that matches an exit pattern must not count as the agent's own exit.
        ("says", "submitted", None, false),
        ("told", "submitted", None, true),
        ("noisy", "submitted", None, true),
        ("empty", "scaffold_exited", Some("empty_turn"), false),
        ("stubborn", "budget_steps", None, false),
        ("shrugs", "budget_steps", None, false),
        ("tokens", "budget_total_tokens", None, false),
    ] {
        let (row, events) = arm_row_and_events(&stage, &out, arm);
        assert_eq!(row["outcome"], outcome, "{arm}: {row:#}");
        assert_eq!(row["cause"].as_str(), cause, "{arm}: {row:#}");
        assert_eq!(row["resolved"], resolved, "{arm}: {row:#}");
        assert_eq!(row["why"].is_string(), outcome == "scaffold_exited", "{arm}: {row:#}");
        let steps = events_of_kind(&events, "model_answered").len();
        assert_eq!(row["steps"], steps, "{arm}");
        // The agent's output, and the log that its manifest specifies, are stored next to the
        // trajectory.
        let kept = find_files(&out.join("trials"), "stdout.log").len();
        assert_eq!(kept, ways.len(), "{arm}");
    }
    let (_, solved) = arm_row_and_events(&stage, &out, "solve");
    check_recorded_tools(&solved);
    let (crashed, _) = arm_row_and_events(&stage, &out, "crash");
    assert!(crashed["why"].as_str().unwrap().contains("exit status 7: boom"), "{crashed:#}");
    // The process in another session was found and killed before the tree was captured.
    let (_, left) = arm_row_and_events(&stage, &out, "daemon");
    let left =
        events_of_kind(&left, "noted").iter().any(|noted| noted["note"]["left_running"].is_u64());
    assert!(left, "the left-over process is not recorded");
    for arm in ["stubborn", "shrugs"] {
        let (row, events) = arm_row_and_events(&stage, &out, arm);
        assert_eq!(row["steps"], 3, "{arm}");
        check_immediate_end(arm, &events);
        let patch = read_patch(&stage, &out, arm);
        assert!(!patch.contains("late"), "{arm}: {patch}");
        assert_eq!(patch.matches("+one").count(), 3, "{arm}: {patch}");
        // Each step has a snapshot, which is needed to compute curves.
        let steps: Vec<_> = events_of_kind(&events, "snapshot_taken")
            .iter()
            .filter_map(|event| event["step"].as_u64())
            .collect();
        assert_eq!(steps, [0, 1, 2, 3], "{arm}");
    }
}

/// Checks that each tool call of the model is recorded with its output, at the step that made the
/// call.
fn check_recorded_tools(events: &[Value]) {
    let (called, returned) =
        (events_of_kind(events, "tool_called"), events_of_kind(events, "tool_returned"));
    assert_eq!((called.len(), returned.len()), (2, 2), "{called:#?}");
    assert_eq!(called[0]["arguments"]["command"], "ls numerals");
    assert!(returned[0]["shown"].as_str().unwrap().contains("roman.py"), "{returned:#?}");
    assert_eq!((&called[0]["step"], &called[1]["step"]), (&json!(1), &json!(2)));
    assert_eq!(called[0]["call_id"], returned[0]["call_id"]);
}

/// Checks that the trial ends at most 5 s after the first rejected request.
fn check_immediate_end(arm: &str, events: &[Value]) {
    let at = |event: &Value| event["t_mono"].as_f64().unwrap();
    let served = events_of_kind(events, "request_served");
    let refused = served.iter().find(|event| event["status"] == 402).unwrap();
    let took = at(events_of_kind(events, "patch_collected")[0]) - at(refused);
    assert!(took < 5.0, "{arm} took {took} s to end");
    let answered = served.iter().filter(|event| event["status"] == 200).count();
    assert_eq!(answered, 3, "{arm}");
}

fn read_patch(stage: &Stage, out: &std::path::Path, arm: &str) -> String {
    let report = stage.report(out);
    let arms = report["arms"].as_array().unwrap();
    let id =
        arms.iter().find(|one| one["name"] == arm).unwrap()["arm"].as_str().unwrap().to_owned();
    let patches = find_files(&out.join("trials").join(&id[..12]), "patch.diff");
    std::fs::read_to_string(&patches[0]).unwrap()
}

/// An agent that exits before the first response says nothing about the model.
#[test]
fn agent_without_a_request_is_not_scored() {
    let stage = Stage::new();
    let out = run(&stage, "native", &[arm_spec("nothing", "nothing", "solves")], 3);
    let (row, _) = arm_row_and_events(&stage, &out, "nothing");
    assert_eq!(row["outcome"], "infrastructure_fault_setup", "{row:#}");
    assert!(row["resolved"].is_null(), "{row:#}");
}

#[test]
fn each_ending_has_its_outcome() {
    check_endings("native");
}

#[test]
fn docker_each_ending_has_its_outcome() {
    if has_docker("docker_each_ending_has_its_outcome") {
        check_endings("docker");
    }
}

/// Returns the demo task with a repository that contains settings and instructions for agents.
fn task_with_settings(stage: &Stage) -> Value {
    let demo = std::fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    let (from, to) = (repository_root().join("configs/tasks/numerals"), stage.path("numerals"));
    let copied = std::process::Command::new("cp").arg("-r").arg(from).arg(&to).status().unwrap();
    assert!(copied.success());
    std::fs::create_dir_all(to.join(".my-cli/hooks")).unwrap();
    std::fs::write(to.join(".my-cli/hooks/pre.sh"), "exit 1\n").unwrap();
    std::fs::write(to.join(".my-cli.json"), "{\"deny\": [\"shell\"]}\n").unwrap();
    std::fs::write(to.join("AGENTS.md"), "KNOWN: the house style.\n").unwrap();
    task["source"]["path"] = to.to_str().unwrap().into();
    task
}

/// Checks that an agent that would follow the repository's settings does not see them, and that the
/// graded tree and every step's tree contain them.
fn check_ignored_settings(kind: &str) {
    let stage = Stage::new();
    let task = task_with_settings(&stage);
    let ways = [
        arm_spec("default", "heeds", "solves"),
        ArmSpec {
            keys: "repository_settings = \"ignore\"",
            budget: "steps = 21",
            ..arm_spec("ignore", "heeds", "solves")
        },
        ArmSpec { keys: "repository_settings = \"use\"", ..arm_spec("use", "heeds", "solves") },
        ArmSpec { budget: "steps = 2", ..arm_spec("limit", "heeds", "goes-on") },
    ];
    let out = run_task(&stage, kind, &ways, &task, 0);
    for (arm, resolved, used) in [
        ("default", true, "ignore"),
        ("ignore", true, "ignore"),
        ("use", false, "use"),
        ("limit", false, "ignore"),
    ] {
        let (row, events) = arm_row_and_events(&stage, &out, arm);
        assert_eq!(row["resolved"], resolved, "{arm}: {row:#}");
        let mut notes = events_of_kind(&events, "noted").into_iter().map(|event| &event["note"]);
        let note = notes.find(|note| !note["repository_settings"].is_null()).unwrap();
        assert_eq!(note["repository_settings"], used, "{arm}");
        let files = note["settings_files"].as_array().unwrap();
        let ends = |end: &str| files.iter().any(|file| file.as_str().unwrap().ends_with(end));
        assert!(files.len() == 2 && ends("/.my-cli.json") && ends("/.my-cli"), "{arm}: {note}");
        let known = note["knowledge_files"].as_array().unwrap();
        assert_eq!(known.len(), 1, "{arm}: {note}");
        for taken in events_of_kind(&events, "snapshot_taken") {
            assert_eq!(taken["removed"], 0, "{arm}: {taken}");
        }
        assert!(!read_patch(&stage, &out, arm).contains("my-cli"), "{arm}");
    }
    // If a limit ends the trial, the graded tree is that of the last step, which was captured while
    // the files were hidden.
    let (row, _) = arm_row_and_events(&stage, &out, "limit");
    assert_eq!(row["outcome"], "budget_steps", "{row:#}");
    assert_eq!(read_patch(&stage, &out, "limit").matches("+one").count(), 2);
}

#[test]
fn repository_settings_are_ignored_but_stay_in_the_tree() {
    check_ignored_settings("native");
}

#[test]
fn docker_repository_settings_are_ignored_but_stay_in_the_tree() {
    if has_docker("docker_repository_settings_are_ignored_but_stay_in_the_tree") {
        check_ignored_settings("docker");
    }
}

/// Linux rejects program arguments of 128 KiB or more.
#[test]
fn long_statement_reaches_the_agent() {
    let stage = Stage::new();
    let demo = std::fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    let statement = task["statement"].as_str().unwrap();
    task["statement"] = format!("{statement}\n{}", "log line of a traceback\n".repeat(9000)).into();
    let out = run_task(&stage, "native", &[arm_spec("a", "told", "solves")], &task, 0);
    let (row, events) = arm_row_and_events(&stage, &out, "a");
    assert_eq!((&row["outcome"], &row["resolved"]), (&json!("submitted"), &json!(true)), "{row:#}");
    let noted = events_of_kind(&events, "noted");
    assert!(noted.iter().any(|event| event["note"]["prompt_in_file"].is_string()), "{noted:#?}");
}

/// Requests from a sub-agent are recorded as steps with the sub-agent's name. These steps do not
/// count toward a limit on main steps.
#[test]
fn sub_agent_requests_are_separate_steps() {
    let stage = Stage::new();
    let way = ArmSpec { budget: "main_steps = 2", ..arm_spec("a", "helps", "goes-on") };
    let out = run(&stage, "native", &[way], 0);
    let (row, events) = arm_row_and_events(&stage, &out, "a");
    assert_eq!(row["outcome"], "budget_main_steps", "{row:#}");
    assert_eq!(row["steps"], 4, "{row:#}");
    let served = events_of_kind(&events, "request_served");
    let who: Vec<_> = served.iter().map(|event| event["conversation"].as_str()).collect();
    assert_eq!(who, [None, Some("h1"), None, Some("h1"), None], "{served:#?}");
}

/// An endpoint fault remains an infrastructure fault without a score, whatever the agent does about
/// it.
#[test]
fn endpoint_fault_seen_by_the_agent_stays_a_fault() {
    let met = [
        ("shrugs", "no-key"),
        ("solve", "no-key"),
        ("asks_on", "rejects"),
        ("streams", "breaks-off"),
    ];
    for (mode, model) in met {
        let stage = Stage::new();
        let out = run(&stage, "native", &[arm_spec("a", mode, model)], 3);
        let (row, _) = arm_row_and_events(&stage, &out, "a");
        assert_eq!(row["outcome"], "infrastructure_fault_model", "{mode}: {row:#}");
        assert!(row["resolved"].is_null(), "{mode}: {row:#}");
    }
}

/// A setting for the agent changes the arm, but the manifest's folder does not. A mistake is
/// reported with its key.
#[test]
fn arm_id_depends_on_settings_and_not_on_paths() {
    let plan = |folder: &str, lines: &str, status: i32| {
        let stage = Stage::new();
        std::fs::create_dir(stage.path(folder)).unwrap();
        let text = "name = 'my-cli'\nversion = '1'\napi = 'chat'\n[command]\nargv = ['x']\n\
                    [settings]\nmode = 'solve'\n";
        stage.write_file(&format!("{folder}/m.toml"), text);
        let config = stage.write_file(
            "run.toml",
            &format!(
                "tasks = ['configs/tasks/demo.jsonl']\n[models.m]\nbase_url = 'http://h'\nname = 'm'\n\
                 [[arms]]\nname = 'a'\nmodel = 'm'\nscaffold = '{folder}/m.toml'\n{lines}\n"
            ),
        );
        let output = stage.run(["run", config.to_str().unwrap(), "--dry-run"], status);
        let printed = String::from_utf8_lossy(&output.stdout);
        let id = printed.split_whitespace().nth(1).unwrap_or_default().to_owned();
        (id, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (first, _) = plan("one", "", 0);
    assert_eq!(first, plan("two", "settings = { mode = 'solve' }", 0).0);
    assert_ne!(first, plan("one", "settings = { mode = 'crash' }", 0).0);
    let (_, said) = plan("one", "settings = { mood = 'crash' }", 2);
    assert!(said.contains("key `arms.0.settings.mood` (arm `a`)"), "{said}");
    assert!(said.contains("did you mean `mode`?"), "{said}");
    let (_, said) = plan("one", "settings = { mode = 3 }", 2);
    assert!(said.contains("must be a string, not a number"), "{said}");
}
