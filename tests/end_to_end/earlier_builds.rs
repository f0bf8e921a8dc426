//! Tests runs that earlier builds made: `tests/earlier-runs` contains one finished run for each
//! build, named after the build's commit.

use std::{fs, path::Path, process::Command};

use proctor_record::RunDir;
use proctor_types::CONFIG_VERSION;
use serde_json::Value;

use crate::stage::{Stage, find_arm, find_files, repository_root};

/// Copies a build's run of gold and noop on the demo's own task.
fn copy_run(stage: &Stage, build: &str) -> String {
    let run = stage.path("run");
    let from = repository_root().join("tests/earlier-runs").join(build);
    let copied = Command::new("cp").arg("-r").arg(from).arg(&run).status().unwrap();
    assert!(copied.success());
    run.to_str().unwrap().to_owned()
}

#[test]
fn run_of_build_6acfa78_is_reported_shown_exported_and_resumed() {
    let stage = Stage::new();
    let run = copy_run(&stage, "6acfa78");
    let run = run.as_str();
    let path = Path::new(run);
    let plan = fs::read(path.join("run.json")).unwrap();

    // The report must match the one that the earlier build wrote.
    let before: Value =
        serde_json::from_slice(&fs::read(path.join("report.json")).unwrap()).unwrap();
    let report = stage.report(path);
    for name in ["gold", "noop"] {
        let (before, now) = (find_arm(&before, name), find_arm(&report, name));
        assert_eq!(
            (&now["arm"], &now["resolved"]),
            (&before["arm"], &before["resolved"]),
            "{name}"
        );
    }
    let shown = stage.run(["show", run], 0).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("resolved      demo__roman-1 / gold / 1"), "{shown}");
    assert!(shown.contains("not resolved  demo__roman-1 / noop / 1"), "{shown}");
    let tables = stage.path("tables");
    stage.run(["export", run, "--format", "jsonl", "--out", tables.to_str().unwrap()], 0);
    let rows = fs::read_to_string(tables.join("trials.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 2, "{rows}");

    // There is nothing for `resume` to run, and it must not change the plan file.
    let verdicts = || -> Vec<_> {
        let found = find_files(&path.join("trials"), "verdict.json");
        found.iter().map(|file| fs::read(file).unwrap()).collect()
    };
    let graded = verdicts();
    assert_eq!(graded.len(), 2);
    stage.run(["resume", run], 0);
    assert_eq!(verdicts(), graded);
    assert_eq!(fs::read(path.join("run.json")).unwrap(), plan);
    let record = RunDir::open_read_only(path).unwrap().read_run().unwrap();
    assert_eq!(record.config_version, 1);
    assert_eq!(record.config.arms[0].scaffold, "gold");
    assert_eq!(record.config.other["attempts"], 1);
}

#[test]
fn run_of_a_newer_build_is_reported() {
    let stage = Stage::new();
    let run = copy_run(&stage, "6acfa78");
    let run = run.as_str();
    {
        let held = RunDir::open(Path::new(run)).unwrap();
        let mut record = held.read_run().unwrap();
        record.config_version = CONFIG_VERSION + 1;
        record.proctor = "9.8.7".into();
        held.write_run(&record).unwrap();
    }
    for args in [["report", run], ["show", run], ["resume", run]] {
        let said = stage.run(args, 2).stderr;
        let said = String::from_utf8_lossy(&said);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("newer build of Proctor (its version is 9.8.7"), "{args:?}: {said}");
    }
}
