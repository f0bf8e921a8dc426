//! Tests real agents from their packages with scripted models. The arms are those of
//! `configs/scaffold-comparison.toml`.
//!
//! By default, two agents run, each of whose bundles is a single program. `PROCTOR_TIER=full` or
//! `PROCTOR_AGENTS=all` runs all eight.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    stage::{Stage, events, find_files, has_docker, repository_root},
    tier::is_full,
};

const COMPARISON_CONFIG: &str = "scaffold-comparison.toml";
const COMPARISON_SCRIPT: &str = "configs/scripts/scaffold-comparison.toml";
/// Both agents download and start quickly, and their wire formats differ from the model's.
const CI_SCAFFOLDS: [&str; 2] = ["claude-code", "codex"];

/// Returns whether to run all agents.
pub fn should_run_all() -> bool {
    std::env::var("PROCTOR_AGENTS").map_or_else(|_| is_full(), |asked| asked == "all")
}

/// Returns the comparison, with the selected arms and absolute task paths, and the script for its
/// models.
pub fn load_comparison(kind: &str) -> (toml::Table, toml::Table) {
    load_shipped(COMPARISON_CONFIG, kind)
}

fn load_shipped(name: &str, kind: &str) -> (toml::Table, toml::Table) {
    let folder = repository_root().join("configs");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut config: toml::Table = read(name).parse().unwrap();
    let arms = config["arms"].as_array_mut().unwrap();
    arms.retain(|arm| {
        should_run_all() || CI_SCAFFOLDS.contains(&arm["scaffold"].as_str().unwrap())
    });
    assert!(arms.len() >= CI_SCAFFOLDS.len(), "{arms:?}");
    let tasks = folder.join("tasks/demo.jsonl").display().to_string();
    config.insert("tasks".into(), vec![tasks].into());
    config["sandbox"]["kind"] = kind.into();
    (config, read("scripts/scaffold-comparison.toml").parse().unwrap())
}

/// Writes a configuration with the selected arms and absolute paths.
fn write_shipped_config(stage: &Stage, name: &str, kind: &str) -> (String, Vec<String>) {
    let (mut config, _) = load_shipped(name, kind);
    if kind == "docker" {
        config["tasks"] = vec![write_bare_image_task(stage).display().to_string()].into();
    }
    write_config(stage, config, &repository_root().join(COMPARISON_SCRIPT))
}

/// Writes the configuration, limited to the models that its arms use. The script plays these
/// models. Returns the configuration's path and the names of the arms.
fn write_config(stage: &Stage, mut config: toml::Table, script: &Path) -> (String, Vec<String>) {
    let arms = config["arms"].as_array().unwrap();
    let of = |key: &str| -> Vec<String> {
        arms.iter().map(|arm| arm[key].as_str().unwrap().to_owned()).collect()
    };
    let (names, asked) = (of("name"), of("model"));
    let models = config["models"].as_table_mut().unwrap();
    models.retain(|name, _| asked.iter().any(|one| one == name));
    for (_, model) in models {
        model["base_url"] = format!("script:{}", script.display()).into();
    }
    let file = stage.write_file("comparison.toml", &toml::to_string(&config).unwrap());
    (file.display().to_string(), names)
}

fn run_shipped(stage: &Stage, name: &str, kind: &str, settings: &[&str]) -> Vec<(Value, PathBuf)> {
    run_config(stage, &write_shipped_config(stage, name, kind), settings)
}

fn run_config(
    stage: &Stage,
    (config, names): &(String, Vec<String>),
    settings: &[&str],
) -> Vec<(Value, PathBuf)> {
    let out = stage.path("run");
    let mut args = vec!["run", config, "--out", out.to_str().unwrap()];
    settings.iter().for_each(|set| args.extend(["--set", set]));
    stage.run(args, 0);
    arm_rows(stage, &out, names)
}

/// Writes the demo task with an image that contains neither Node nor pip.
fn write_bare_image_task(stage: &Stage) -> PathBuf {
    let demo = std::fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    task["environment"] = json!({
        "image": "proctor-test:bookworm",
        "setup": ["! command -v node npm pip pip3 && ! python3 -m pip --version", "python3 -m venv /venv",
                  "/venv/bin/pip install --quiet pytest==8.4.2", "rm /venv/bin/pip*"],
    });
    stage.write_file("image.jsonl", &format!("{task}\n"))
}

/// Returns each arm's row in the report, with the journal of the arm's only trial.
pub fn arm_rows(stage: &Stage, out: &Path, arm_names: &[String]) -> Vec<(Value, PathBuf)> {
    let report = stage.report(out);
    let of = |name: &String| {
        let arms = report["arms"].as_array().unwrap();
        let arm = arms.iter().find(|arm| arm["name"] == name.as_str()).unwrap();
        let id = arm["arm"].as_str().unwrap();
        let rows = report["tasks"].as_array().unwrap();
        let row = rows.iter().find(|row| row["arm"] == id).unwrap().clone();
        (row, find_files(&out.join("trials").join(&id[..12]), "trajectory.jsonl").remove(0))
    };
    arm_names.iter().map(of).collect()
}

/// Checks that each agent solves the task with its own tools, and that the record contains the same
/// events as for a built-in loop.
fn check_solved(name: &str, kind: &str) {
    let stage = Stage::new();
    for (row, journal) in run_shipped(&stage, name, kind, &[]) {
        let shown = journal.display();
        assert_eq!(row["outcome"], "submitted", "{shown}: {row:#}");
        assert_eq!(row["resolved"], true, "{shown}: {row:#}");
        assert_eq!(events(&journal, "model_answered").len(), 4, "{shown}");
        let (called, returned) =
            (events(&journal, "tool_called"), events(&journal, "tool_returned"));
        assert_eq!((called.len(), returned.len()), (3, 3), "{shown}: {called:#?}");
        let looked = returned[0]["shown"].as_str().unwrap();
        assert!(looked.contains("to_roman"), "{shown}: {looked}");
        let kept = journal.parent().unwrap().join("scaffold");
        assert!(kept.join("stdout.log").is_file(), "{shown}: what it printed is not kept");
        assert!(kept.join("home").is_dir(), "{shown}: its own log is not kept");
    }
}

/// A limit of three steps allows three responses. After that, the agent is stopped immediately, and
/// its work is graded.
#[test]
fn limit_ends_a_real_agent_at_once() {
    let stage = Stage::new();
    for (row, journal) in run_shipped(&stage, COMPARISON_CONFIG, "native", &["budget.steps=3"]) {
        let shown = journal.display();
        assert_eq!(row["outcome"], "budget_steps", "{shown}: {row:#}");
        // The script edits a file in its second step.
        assert_eq!(row["resolved"], true, "{shown}: {row:#}");
        let served = events(&journal, "request_served");
        let answered = served.iter().filter(|one| one["status"] == 200).count();
        assert_eq!(answered, 3, "{shown}");
        let at = |event: &Value| event["t_mono"].as_f64().unwrap();
        let refused = served.iter().find(|one| one["status"] == 402).unwrap();
        let took = at(&events(&journal, "patch_collected")[0]) - at(refused);
        assert!(took < 5.0, "{shown}: took {took} s to end");
    }
}

/// Files in the repository that would disable an agent's shell or end the agent at its first step.
const HOSTILE_FILES: [(&str, &str); 8] = [
    (
        ".claude/settings.json",
        r#"{"permissions": {"deny": ["Bash"]},
            "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "exit 2"}]}]}}"#,
    ),
    (".codex/config.toml", "sandbox_mode = 'read-only'\n[features]\nshell_tool = false\n"),
    (
        ".continue/settings.json",
        r#"{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "exit 2"}]}]}}"#,
    ),
    (
        ".gemini/settings.json",
        r#"{"model": {"maxSessionTurns": 1}, "tools": {"exclude": ["run_shell_command"]}}"#,
    ),
    (
        ".qwen/settings.json",
        r#"{"model": {"maxSessionTurns": 1}, "tools": {"exclude": ["run_shell_command"]}}"#,
    ),
    ("opencode.json", r#"{"permission": {"bash": "deny"}}"#),
    ("mini.yaml", "agent:\n  step_limit: 1\n"),
    (
        ".openhands/hooks.json",
        r#"{"pre_tool_use": [{"matcher": "*", "hooks": [{"type": "command", "command": "exit 2"}]}]}"#,
    ),
];

/// Writes the demo task with the given files and with a statement of 200 KB.
fn write_hostile_task(stage: &Stage) -> PathBuf {
    let demo = std::fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    let (from, to) = (repository_root().join("configs/tasks/numerals"), stage.path("numerals"));
    let copied = std::process::Command::new("cp").arg("-r").arg(from).arg(&to).status().unwrap();
    assert!(copied.success());
    for (path, content) in HOSTILE_FILES {
        let path = to.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    task["source"]["path"] = to.to_str().unwrap().into();
    let statement = task["statement"].as_str().unwrap();
    task["statement"] = format!("{statement}\n{}", "a line of a log\n".repeat(12_500)).into();
    stage.write_file("hostile.jsonl", &format!("{task}\n"))
}

/// Agents must solve the task despite malicious settings in the repository, a long statement, a
/// command that contains `curl`, and 100 KB of output on standard error.
#[test]
fn real_agents_solve_a_hostile_task() {
    let stage = Stage::new();
    let (mut config, _) = load_comparison("native");
    config["tasks"] = vec![write_hostile_task(&stage).display().to_string()].into();
    let look = "cat numerals/roman.py numerals/__init__.py";
    let noise = "curl -s http://127.0.0.1:9/ || true; yes error | head -c 100000 >&2";
    let script = std::fs::read_to_string(repository_root().join(COMPARISON_SCRIPT)).unwrap();
    assert_eq!(script.matches(look).count(), 8, "each agent looks first");
    let script =
        stage.write_file("script.toml", &script.replace(look, &format!("{look}; {noise}")));
    let written = write_config(&stage, config, &script);
    for (row, journal) in run_config(&stage, &written, &[]) {
        let shown = journal.display();
        assert_eq!(row["outcome"], "submitted", "{shown}: {row:#}");
        assert_eq!(row["resolved"], true, "{shown}: {row:#}");
        assert_eq!(events(&journal, "model_answered").len(), 4, "{shown}");
        let noted = events(&journal, "noted");
        let mut files = noted.iter().map(|event| &event["note"]["settings_files"]);
        let hidden = |files: &Value| files.as_array().is_some_and(|files| !files.is_empty());
        assert!(files.any(hidden), "{shown}: {noted:#?}");
    }
}

/// The agent's own prompt fills nearly the whole context window.
#[test]
fn real_agents_solve_a_task_in_a_small_window() {
    let stage = Stage::new();
    let (mut config, _) = load_comparison("native");
    for (_, model) in config["models"].as_table_mut().unwrap() {
        model.as_table_mut().unwrap().insert("context_window".into(), toml::Value::Integer(32_768));
    }
    let written = write_config(&stage, config, &repository_root().join(COMPARISON_SCRIPT));
    for (row, journal) in run_config(&stage, &written, &[]) {
        let shown = journal.display();
        assert_eq!(row["outcome"], "submitted", "{shown}: {row:#}");
        assert_eq!(row["resolved"], true, "{shown}: {row:#}");
    }
}

#[test]
fn real_agents_solve_a_task() {
    check_solved(COMPARISON_CONFIG, "native");
}

/// Runs each agent on endpoints of all four wire formats. The gateway translates the requests.
#[test]
fn real_agents_solve_a_task_on_every_format() {
    check_solved("scaffold-formats.toml", "native");
}

#[test]
fn docker_real_agents_solve_a_task() {
    if has_docker("docker_real_agents_solve_a_task") {
        check_solved(COMPARISON_CONFIG, "docker");
    }
}

/// Runs each agent on all four wire formats in containers, but only if all agents are selected. The
/// gateway's translation does not depend on the back end, so a default run tests it only once.
#[test]
fn docker_real_agents_solve_a_task_on_every_format() {
    if should_run_all() && has_docker("docker_real_agents_solve_a_task_on_every_format") {
        check_solved("scaffold-formats.toml", "docker");
    }
}
