//! Tests that a user's mistake ends with exit status 2 and a message that names the key or file and
//! has a hint.

use crate::stage::Stage;

fn config_error(config: &str, args: &[&str]) -> String {
    let stage = Stage::new();
    let config = stage.write_file("run.toml", config);
    let mut all = vec!["run", config.to_str().unwrap()];
    all.extend(args);
    let output = stage.run(all, 2);
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

const NOOP: &str =
    "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"a\"\nscaffold = \"noop\"\n";

#[test]
fn unknown_key_is_reported_with_the_closest_match() {
    let said = config_error(&format!("{NOOP}[budget]\nstesp = 3\n"), &[]);
    assert!(said.contains("stesp") && said.contains("did you mean `steps`?"), "{said}");
}

#[test]
fn unknown_scaffold_lists_known_scaffolds() {
    let said = config_error(NOOP, &["--set", "arms.0.scaffold=tolls"]);
    assert!(
        said.contains("tolls") && said.contains("scaffolds: ") && said.contains("tools"),
        "{said}"
    );
}

#[test]
fn scaffold_without_a_model_is_reported() {
    let said = config_error(NOOP, &["--set", "arms.0.scaffold=tools"]);
    assert!(said.contains("needs a model"), "{said}");
}

#[test]
fn unenforceable_network_setting_is_rejected() {
    for (set, key) in [
        ("network.allow=[\"pypi.org\"]", "network.allow"),
        ("network.deny=[\"https://a/?q\"]", "network.deny"),
        ("network.private=[\"localhost\"]", "network.private"),
        ("network.ca_file=missing.pem", "network.ca_file"),
    ] {
        let said = config_error(NOOP, &["--set", "network.mode=allow", "--set", set]);
        assert!(said.contains(key) && said.contains("docs/reference/egress.md"), "{said}");
    }
}

#[test]
fn arms_with_equal_factors_are_rejected() {
    let twice = format!("{NOOP}[[arms]]\nname = \"b\"\nscaffold = \"noop\"\n");
    let said = config_error(&twice, &[]);
    assert!(said.contains("same factors"), "{said}");
}

#[test]
fn invalid_row_is_reported_with_file_and_line() {
    let stage = Stage::new();
    let rows = stage.write_file("rows.jsonl", "{\"schema_version\": 1, \"id\": \"x\"}\nnot json\n");
    let config = stage.write_file(
        "run.toml",
        &format!("tasks = [{rows:?}]\n[[arms]]\nname = \"a\"\nscaffold = \"noop\"\n"),
    );
    let output = stage.run(["run", config.to_str().unwrap()], 2);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("rows.jsonl") && said.contains('2'), "{said}");
}

#[test]
fn error_in_several_rows_is_printed_once_with_all_places() {
    let stage = Stage::new();
    let row = |id: &str| format!("{{\"schema_version\": 1, \"id\": \"{id}\"}}\n");
    let rows = stage.write_file("rows.jsonl", &["x1", "x2", "x3"].map(row).concat());
    let output = stage.run(["tasks", "list", "--tasks", rows.to_str().unwrap()], 2);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("field `statement`: is missing").count(), 1, "{said}");
    for part in ["rows.jsonl:1: x1", "rows.jsonl:2: x2", "rows.jsonl:3: x3", "(3 times)"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn invalid_value_is_reported_with_its_key() {
    for (set, key) in [
        ("budget.wall_seconds=-1", "budget.wall_seconds"),
        ("budget.command_seconds=nan", "budget.command_seconds"),
        ("budget.wall_seconds=1e30", "budget.wall_seconds"),
        ("sandbox.cpus=0", "sandbox.cpus"),
        ("sandbox.memory_mb=0", "sandbox.memory_mb"),
        ("sandbox.memory_mb=99999999999999", "sandbox.memory_mb"),
        ("jobs=0", "jobs"),
        ("budget=[5]", "budget"),
        ("arms.0.leak_check=[\"remove\"]", "arms.0.leak_check"),
        ("budget.run=[3]", "budget.run"),
    ] {
        let said = config_error(NOOP, &["--set", set]);
        assert!(said.contains(&format!("`{key}`")), "{set}: {said}");
    }
}

#[test]
fn invalid_choice_gets_only_close_suggestions() {
    let said = config_error(NOOP, &["--set", "sandbox.kind=vm"]);
    assert!(said.contains("invalid value `vm`") && !said.contains("did you mean"), "{said}");
    let said = config_error(NOOP, &["--set", "sandbox.kind=doker"]);
    assert!(said.contains("did you mean `docker`?"), "{said}");
}

#[test]
fn replay_without_a_trajectory_is_reported() {
    let replay = NOOP.replace("scaffold = \"noop\"", "scaffold = \"replay\"");
    assert!(config_error(&replay, &[]).contains("nothing to replay"));
    let said = config_error(&replay, &["--set", "arms.0.replay=nowhere.jsonl"]);
    assert!(said.contains("no such file: nowhere.jsonl"), "{said}");
}

#[test]
fn predictions_for_another_dataset_are_reported() {
    let stage = Stage::new();
    let row = r#"{"instance_id": "elsewhere-1", "model_name_or_path": "m", "model_patch": ""}"#;
    let (file, out) = (stage.write_file("preds.jsonl", row), stage.path("run"));
    let tasks = ["--tasks", "configs/tasks/demo.jsonl", "--out", out.to_str().unwrap()];
    let said =
        stage.run([&["grade", "--predictions", file.to_str().unwrap()], &tasks[..]].concat(), 2);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("no prediction matches a task of the dataset (predictions: elsewhere-1"),
        "{said}"
    );
    assert!(!out.exists());
}

#[test]
fn dry_run_builds_nothing() {
    let stage = Stage::new();
    let cache = stage.path("cache");
    let mut command = stage.proctor(["run", "configs/demo.toml", "--dry-run"]);
    let done = command.env("PROCTOR_CACHE", &cache).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    for part in
        ["tools, scripted-demo, ", "task boltons__intlists-1", "6 trials: 2 tasks x 3 arms x 1"]
    {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    assert!(!cache.exists(), "a dry run must not build or download anything");
}

/// Without this check, every trial would fail with this error after the first environment was
/// built.
#[test]
fn missing_source_is_reported_before_anything_starts() {
    let stage = Stage::new();
    let row = |id: &str, source: &str| {
        format!(
            r#"{{"schema_version": 1, "id": "{id}", "statement": "s", "environment": {{"base": "host"}}, "source": {source}, "fail_to_pass": ["t.py::t"], "gold": "x", "test_command": ["pytest"]}}"#
        )
    };
    for (source, what) in [
        (r#"{"path": "nowhere"}"#, "is not a folder"),
        (r#"{"archive": "no.tar.gz"}"#, "is not a file"),
    ] {
        let rows = stage.write_file("rows.jsonl", &(row("lost", source) + "\n"));
        let config = format!(
            "tasks = [\"{}\"]\n[[arms]]\nname = \"n\"\nscaffold = \"noop\"\n",
            rows.display()
        );
        let config = stage.write_file("run.toml", &config);
        let out = stage.path("run");
        for extra in [&["--dry-run"][..], &["--out", out.to_str().unwrap()]] {
            let args = [&["run", config.to_str().unwrap()], extra].concat();
            let done = stage.run(args, 2);
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(
                said.contains(what) && said.contains("lost") && said.contains("hint:"),
                "{said}"
            );
        }
        assert!(!out.exists());
    }
}

#[test]
fn missing_script_creates_no_run() {
    let text = "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"a\"\n\
                scaffold = \"tools\"\nmodel = \"m\"\n\
                [models.m]\nbase_url = \"script:nope.toml\"\nname = \"m\"\n";
    let stage = Stage::new();
    let (config, out) = (stage.write_file("run.toml", text), stage.path("run"));
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 2);
    assert!(!out.exists());
}

#[test]
fn folder_without_a_run_is_reported() {
    let stage = Stage::new();
    for command in ["resume", "report"] {
        let output = stage.run([command, stage.dir.path().to_str().unwrap()], 2);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("run.json"), "{said}");
    }
}

#[test]
fn grade_rejects_options_without_effect() {
    let stage = Stage::new();
    let gold = ["grade", "--predictions", "gold", "--tasks", "configs/tasks/demo.jsonl"];
    for (args, named) in [
        ([&gold[..], &["--flaky", "vote"]].concat(), "--certificate"),
        (vec!["grade", "runs/x", "--certificate", "c.json"], "--certificate"),
        (vec!["grade", "runs/x", "--sandbox", "docker"], "--sandbox"),
        (vec!["grade", "runs/x", "--jobs", "2"], "--jobs"),
        (vec!["grade", "runs/x", "--include-failed"], "--include-failed"),
        (vec!["grade", "--log", "x", "--task", "y", "--tasks", "z"], "--tasks"),
    ] {
        let output = stage.run(args.clone(), 2);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(named), "{args:?}: {said}");
    }
}
