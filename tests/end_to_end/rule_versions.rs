//! Tests that a run records the version of the rules for attribution and grading, and never mixes
//! results of two versions.

use std::{fs, path::Path};

use fake_llm::FakeLlm;
use proctor_record::{Journal, RunDir, read_journal};
use proctor_types::{Event, RULES_VERSION};
use serde_json::Value;

use crate::stage::{Stage, find_files};

/// Changes the record, so that the run seems to have been made with the first version of the rules.
fn set_first_rules(out: &Path) {
    let run = RunDir::open(out).unwrap();
    let mut record = run.read_run().unwrap();
    assert_eq!(record.rules, RULES_VERSION);
    record.rules = 1;
    run.write_run(&record).unwrap();
}

fn normalize_whitespace(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn run_with_older_rules_is_not_resumed() {
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"gold\"\nscaffold = \"gold\"\n\
         [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n",
    );
    let (config, out) = (config.to_str().unwrap(), stage.path("run"));
    let out_text = out.to_str().unwrap();
    stage.run(["run", config, "--out", out_text], 0);
    set_first_rules(&out);
    // Results that are finished can still be read. Without new trials, no versions are mixed.
    stage.run(["resume", out_text], 0);
    let remarks = stage.report(&out)["remarks"].to_string();
    assert!(remarks.contains("grading rules 1"), "{remarks}");

    let verdict = find_files(&out.join("trials"), "verdict.json").remove(0);
    fs::remove_file(&verdict).unwrap();
    fs::remove_dir_all(verdict.with_file_name("grade")).unwrap();
    for args in [
        &["resume", out_text][..],
        &["resume", out_text, "--join"],
        &["rerun", out_text, "--select", "missing"],
        &["run", config, "--out", out_text, "--extend"],
    ] {
        let said = normalize_whitespace(&stage.run(args, 2).stderr);
        let named = format!(
            "version 1 of the attribution and grading rules (Proctor {})",
            env!("CARGO_PKG_VERSION")
        );
        assert!(said.contains(&named) && said.contains("--recheck"), "{args:?}: {said}");
        assert!(!verdict.exists());
    }
}

/// Under the first version of the rules, some trials were scored although an endpoint had ended
/// them with an unexplained rejection.
#[test]
fn recheck_lists_trials_that_current_rules_would_not_score() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = "[[rule]]\nturn = 1\nanswer = { fault = [{ kind = \"status\", status = 400, times = 0, \
         body = '{\"error\":{\"message\":\"filtered\",\"code\":\"content_filter\"}}' }] }\n\
         [default]\ntool_calls = [{ name = \"shell\", arguments = { command = \"true\" } }]\n";
    let fake = runtime.block_on(FakeLlm::start(toml::from_str(script).unwrap())).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"asks\"\nscaffold = \"tools\"\n\
             model = \"fake\"\n[models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let out = stage.path("run");
    let out_text = out.to_str().unwrap();
    stage.run(["run", config.to_str().unwrap(), "--out", out_text], 0);
    let report = stage.report(&out);
    assert_eq!(report["tasks"][0]["outcome"], "model_refused");
    let recheck = || -> Value {
        let args = ["report", out_text, "--recheck", "--format", "json"];
        serde_json::from_slice(&stage.run(args, 0).stdout).unwrap()
    };
    set_first_rules(&out);
    let same = recheck();
    assert_eq!(
        (&same["runs"][0]["rules"], &same["rules"]),
        (&1.into(), &RULES_VERSION.into()),
        "{same}"
    );
    assert_eq!(
        same["trials"].as_array().unwrap().len(),
        0,
        "a filter is the model's own end: {same}"
    );

    // Use the same ending after a rejection that mentions neither a filter nor a window.
    let trajectory = find_files(&out.join("trials"), "trajectory.jsonl").remove(0);
    let run = RunDir::open(&out).unwrap();
    let other = br#"{"error":{"message":"unknown field `reasoning_content` in the stream"}}"#;
    let hash = run.blobs().put(other).unwrap();
    let mut events = read_journal(&trajectory).unwrap().events;
    for envelope in &mut events {
        if let Event::ModelAttempted { status: Some(400), body, .. } = &mut envelope.event {
            *body = Some(hash.clone());
        }
    }
    Journal::create_with_events(&trajectory, 1, events).unwrap();
    drop(run);
    let changed = recheck();
    let trial = &changed["trials"][0];
    assert_eq!((&trial["recorded"], &trial["arm"]), (&"model_refused".into(), &"asks".into()));
    assert!(trial["now"].as_str().unwrap().contains("infrastructure"), "{changed}");
    let text = normalize_whitespace(&stage.run(["report", out_text, "--recheck"], 0).stdout);
    assert!(text.contains("/ asks / 1: model_refused, now an infrastructure failure"), "{text}");
}
