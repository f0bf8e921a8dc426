//! Tests the demo in the README.

use serde_json::Value;

use crate::stage::{Stage, find_arm, find_files, has_docker};

/// Returns the trials and verdicts that the report of the demo contains.
fn report_verdicts(report: &Value) -> Vec<(String, String, Value)> {
    let name_of = |id: &Value| {
        let arms = report["arms"].as_array().unwrap();
        arms.iter().find(|arm| arm["arm"] == *id).unwrap()["name"].as_str().unwrap().to_owned()
    };
    let mut all: Vec<_> = report["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| {
            let task = trial["task"].as_str().unwrap().to_owned();
            (task, name_of(&trial["arm"]), trial["resolved"].clone())
        })
        .collect();
    all.sort_by_key(|(task, arm, _)| (task.clone(), arm.clone()));
    all
}

pub fn run_demo(stage: &Stage, out: &str, extra_args: &[&str]) -> Value {
    let out = stage.path(out);
    let mut args = vec!["run", "configs/demo.toml", "--out", out.to_str().unwrap()];
    args.extend(extra_args);
    let output = stage.run(args, 0);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is a script"), "the demo must say that its model is a script:\n{said}");
    let report = stage.report(&out);
    assert_eq!(find_arm(&report, "gold")["resolved_rate"], 1.0);
    assert_eq!(find_arm(&report, "noop")["resolved_rate"], 0.0);
    assert_eq!(find_arm(&report, "tools/scripted")["resolved_rate"], 0.5);
    assert!(find_arm(&report, "tools/scripted")["steps"]["mean"].as_f64().unwrap() > 1.0);
    for file in ["trajectory.jsonl", "patch.diff", "outcome.json", "verdict.json"] {
        assert_eq!(find_files(&out.join("trials"), file).len(), 6, "{file}");
    }
    assert!(out.join("run.json").is_file() && out.join("report.json").is_file());
    report
}

#[test]
fn demo_distinguishes_gold_noop_and_a_script() {
    run_demo(&Stage::new(), "run", &[]);
}

#[test]
fn docker_demo_has_the_same_verdicts() {
    if !has_docker("docker_demo_has_the_same_verdicts") {
        return;
    }
    let stage = Stage::new();
    let native = run_demo(&stage, "native", &[]);
    let on_docker = run_demo(&stage, "docker", &["--set", "sandbox.kind=docker"]);
    assert_eq!(report_verdicts(&native), report_verdicts(&on_docker));
}
