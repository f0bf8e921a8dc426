//! Real agents from their packages, with scripted models: the arms of `configs/scaffold-comparison.toml`.
//!
//! Two of them by default, whose bundles are one program each. `PROCTOR_TIER=full` or `PROCTOR_AGENTS=all` runs all
//! eight.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    stage::{Stage, docker, events, find, root},
    tier::is_full,
};

const COMPARISON: &str = "scaffold-comparison.toml";
/// Both are quick to fetch and start, and speak wire formats that are not the model's.
const IN_CI: [&str; 2] = ["claude-code", "codex"];

/// Whether all agents are asked for.
pub fn all() -> bool {
    std::env::var("PROCTOR_AGENTS").map_or_else(|_| is_full(), |asked| asked == "all")
}

/// The comparison with the arms that are asked for, its tasks' path made absolute, and the script of its models.
pub fn comparison(kind: &str) -> (toml::Table, toml::Table) {
    shipped(COMPARISON, kind)
}

fn shipped(name: &str, kind: &str) -> (toml::Table, toml::Table) {
    let folder = root().join("configs");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut config: toml::Table = read(name).parse().unwrap();
    let arms = config["arms"].as_array_mut().unwrap();
    arms.retain(|arm| all() || IN_CI.contains(&arm["scaffold"].as_str().unwrap()));
    assert!(arms.len() >= IN_CI.len(), "{arms:?}");
    let tasks = folder.join("tasks/demo.jsonl").display().to_string();
    config.insert("tasks".into(), vec![tasks].into());
    config["sandbox"]["kind"] = kind.into();
    (config, read("scripts/scaffold-comparison.toml").parse().unwrap())
}

/// A configuration with these arms, its paths made absolute.
fn config(stage: &Stage, name: &str, kind: &str) -> (String, Vec<String>) {
    let (mut config, _) = shipped(name, kind);
    let arms = config["arms"].as_array().unwrap();
    let of = |key: &str| -> Vec<String> {
        arms.iter().map(|arm| arm[key].as_str().unwrap().to_owned()).collect()
    };
    let (names, asked) = (of("name"), of("model"));
    if kind == "docker" {
        config["tasks"] = vec![bare_image(stage).display().to_string()].into();
    }
    let models = config["models"].as_table_mut().unwrap();
    models.retain(|name, _| asked.iter().any(|one| one == name));
    for (_, model) in models {
        let script = root().join("configs/scripts/scaffold-comparison.toml");
        model["base_url"] = format!("script:{}", script.display()).into();
    }
    let file = stage.file("comparison.toml", &toml::to_string(&config).unwrap());
    (file.display().to_string(), names)
}

fn run(stage: &Stage, name: &str, kind: &str, sets: &[&str]) -> Vec<(Value, PathBuf)> {
    let (config, names) = config(stage, name, kind);
    let out = stage.path("run");
    let mut args = vec!["run", &config, "--out", out.to_str().unwrap()];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    stage.run(args, 0);
    rows(stage, &out, &names)
}

/// The demo task in an image that has neither Node nor pip.
fn bare_image(stage: &Stage) -> PathBuf {
    let demo = std::fs::read_to_string(root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] = root().join("configs/tasks/numerals").to_str().unwrap().into();
    task["environment"] = json!({
        "image": "proctor-test:bookworm",
        "setup": ["! command -v node npm pip pip3 && ! python3 -m pip --version", "python3 -m venv /venv",
                  "/venv/bin/pip install --quiet pytest==8.4.2", "rm /venv/bin/pip*"],
    });
    stage.file("image.jsonl", &format!("{task}\n"))
}

/// The row of each arm's one trial in the report, and its journal.
pub fn rows(stage: &Stage, out: &Path, names: &[String]) -> Vec<(Value, PathBuf)> {
    let report = stage.report(out);
    let of = |name: &String| {
        let arms = report["arms"].as_array().unwrap();
        let arm = arms.iter().find(|arm| arm["name"] == name.as_str()).unwrap();
        let id = arm["arm"].as_str().unwrap();
        let rows = report["tasks"].as_array().unwrap();
        let row = rows.iter().find(|row| row["arm"] == id).unwrap().clone();
        (row, find(&out.join("trials").join(&id[..12]), "trajectory.jsonl").remove(0))
    };
    names.iter().map(of).collect()
}

/// Each solves the task with its own tool, and its record reads like a built-in loop's.
fn solve(name: &str, kind: &str) {
    let stage = Stage::new();
    for (row, journal) in run(&stage, name, kind, &[]) {
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
        assert!(kept.join("home").is_dir(), "{shown}: nothing of its own log is kept");
    }
}

/// A limit of three steps is three answers; the agent is gone at once, and its work is graded.
#[test]
fn a_limit_ends_a_real_agent_at_once() {
    let stage = Stage::new();
    for (row, journal) in run(&stage, COMPARISON, "native", &["budget.steps=3"]) {
        let shown = journal.display();
        assert_eq!(row["outcome"], "budget_steps", "{shown}: {row:#}");
        // The script edits at its second step.
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

#[test]
fn real_agents_solve_a_task() {
    solve(COMPARISON, "native");
}

/// The cross table: each agent on endpoints of the four wire formats, by the gateway's translation.
#[test]
fn real_agents_solve_a_task_on_every_format() {
    solve("scaffold-formats.toml", "native");
}

#[test]
fn docker_real_agents_solve_a_task() {
    if docker("docker_real_agents_solve_a_task") {
        solve(COMPARISON, "docker");
    }
}

/// The cross table in containers, where all agents are asked for: the translation is the same as above.
#[test]
fn docker_real_agents_solve_a_task_on_every_format() {
    if all() && docker("docker_real_agents_solve_a_task_on_every_format") {
        solve("scaffold-formats.toml", "docker");
    }
}
