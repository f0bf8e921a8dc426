//! Tests `compare` on a run with controls, its gates, and globs that are repeated.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::stage::{Stage, find_files, repository_root};

const TASK_COUNT: usize = 6;

/// Writes a configuration with six tasks and three arms: gold, noop, and a scripted arm.
/// `has_control_arm` marks the scripted arm as a control.
fn write_config(stage: &Stage, has_control_arm: bool) -> PathBuf {
    let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
    task["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    let lines: Vec<String> = (0..TASK_COUNT)
        .map(|number| {
            task["id"] = format!("compare-{number}").into();
            task.to_string()
        })
        .collect();
    stage.write_file("tasks.jsonl", &lines.join("\n"));
    let marked = if has_control_arm { "control = true\n" } else { "" };
    let text = format!(
        "tasks = [\"{}\"]\njobs = 2\n[[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n\
         [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n\
         [[arms]]\nname = \"the old one\"\nscaffold = \"tools\"\nmodel = \"s\"\n{marked}\
         [models.s]\nbase_url = \"script:{}\"\nname = \"scripted\"\n",
        stage.path("tasks.jsonl").display(),
        repository_root().join("configs/scripts/demo.toml").display(),
    );
    stage.write_file("compare.toml", &text)
}

#[test]
fn controls_are_compared_separately_and_gates_have_exit_codes() {
    let stage = Stage::new();
    let config = write_config(&stage, true);
    let out = stage.path("run");
    let run = out.to_str().unwrap();
    stage.run(["run", config.to_str().unwrap(), "--out", run], 0);
    let json = |args: &[&str], status: i32| -> Value {
        let all = ["compare", run, "--format", "json"];
        serde_json::from_slice(&stage.run(all.iter().chain(args), status).stdout).unwrap()
    };
    // Without the controls, there are fewer than two arms to compare.
    let found = json(&[], 0);
    assert_eq!(found["pairs"], serde_json::json!([]));
    let resolved: Vec<(&str, &str)> = found["controls"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pair| pair["metric"] == "resolved")
        .map(|pair| (pair["a"].as_str().unwrap(), pair["b"].as_str().unwrap()))
        .collect();
    assert_eq!(resolved, [("gold", "noop"), ("gold", "the old one"), ("noop", "the old one")]);
    let text = String::from_utf8(stage.run(["compare", run], 0).stdout).unwrap();
    assert!(text.contains("gold vs noop (control)"), "{text}");

    for (gate, status, result) in [
        ("gold >= noop - 2", 0, "passed"),
        ("noop >= gold - 2", 4, "failed"),
        // With only six tasks, a difference of two points can be neither shown nor excluded.
        ("gold >= 'the old one' - 2", 5, "undecided"),
        ("the old one >= gold - 60", 0, "passed"),
    ] {
        let found = json(&["--gate", gate], status);
        assert_eq!(found["gates"][0]["result"], result, "{gate}: {found}");
        assert_eq!(found["gates"][0]["tasks"], TASK_COUNT);
    }
    // If there are several gates, the worst result determines the exit status.
    let args = ["--gate", "gold >= noop - 2", "--gate", "noop >= gold - 2"];
    assert_eq!(json(&args, 4)["gates"].as_array().unwrap().len(), 2);
    for gate in ["golden >= noop - 2", "gold >= nope", "gold - 2", "gold >= gold - 1"] {
        let output = stage.run(["compare", run, "--gate", gate], 2);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("--gate") && error.contains("hint: "), "{error}");
    }
    // Marking an arm as a control does not change the arm: another record of the same arm may be
    // marked differently.
    let record: Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    let arms = record["arms"].as_array().unwrap();
    assert_eq!(arms[2]["control"], true);
    let noop = &arms[1]["id"].as_str().unwrap()[..12];
    let verdicts = find_files(&out.join("trials"), "verdict.json");
    let verdict = verdicts.iter().find(|path| path.to_string_lossy().contains(noop)).unwrap();
    fs::remove_dir_all(verdict.parent().unwrap()).unwrap();
    let found = json(&["--gate", "gold >= noop - 2", "--gate", "noop >= gold - 2"], 3);
    assert_eq!(found["gates"][0]["result"], "incomplete");
    assert!(found["gates"][0]["sentence"].as_str().unwrap().contains("1 of 6 trials in noop"));
}

#[test]
fn task_and_arm_globs_can_be_repeated() {
    let stage = Stage::new();
    let config = write_config(&stage, false);
    let dry_run = |args: &[&str], status: i32| {
        let all = ["run", config.to_str().unwrap(), "--dry-run"];
        let output = stage.run(all.iter().chain(args), status);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    };
    let args = ["--tasks", "*-1", "--tasks", "compare-[34]", "--arms", "g*", "--arms", "*old*"];
    let plan = dry_run(&args, 0);
    assert!(plan.contains("6 trials: 3 tasks x 2 arms"), "{plan}");
    for part in ["task compare-1\n", "task compare-3\n", "task compare-4\n", "the old one"] {
        assert!(plan.contains(part), "{part} is missing in {plan}");
    }
    assert!(!plan.contains("noop"), "{plan}");
    // Each of the globs must match something.
    let said = dry_run(&["--arms", "gold", "--arms", "nop"], 2);
    assert!(said.contains("--arms nop: no arm") && said.contains("`noop`"), "{said}");
}
