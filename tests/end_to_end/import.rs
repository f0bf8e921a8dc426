//! Tests `proctor import`, which reads files from `export` and from other tools as runs
//! (`docs/reference/export.md`).

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::stage::{DEMO_SOLUTION, Stage};

const DEMO_TASKS: &str = "configs/tasks/demo.jsonl";

fn import_files(stage: &Stage, files: &[&Path], extra_args: &[&str], out: &str) -> (Value, String) {
    let run = stage.path(out);
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let args = [&["import"], &files[..], &["--out", run.to_str().unwrap()], extra_args].concat();
    let said = String::from_utf8(stage.run(args, 0).stderr).unwrap();
    let fidelity = fs::read(run.join("fidelity.json")).unwrap();
    (serde_json::from_slice(&fidelity).unwrap(), said)
}

fn import_error(stage: &Stage, file: &Path, extra_args: &[&str]) -> String {
    let (out, file) = (stage.path("refused"), file.to_str().unwrap());
    let args = [&["import", file, "--out", out.to_str().unwrap()], extra_args].concat();
    let said = String::from_utf8(stage.run(args, 2).stderr).unwrap();
    assert!(said.contains("hint: ") && !out.join("run.json").exists(), "{said}");
    said
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Imports exported files again. For a format, `folder` returns the folder with the exported files.
pub fn check_export_round_trip(stage: &Stage, folder: impl Fn(&str) -> std::path::PathBuf) {
    let first = folder("atif").join("tools-scripted/demo__roman-1.1.json");
    let noop = folder("atif").join("noop/demo__roman-1.1.json");
    let (fidelity, _) =
        import_files(stage, &[&first, &noop], &["--tasks", DEMO_TASKS], "from-atif");
    assert_eq!(fidelity["imported"][0]["trials"], 2);
    let lacks = fidelity["imported"][0]["not_in_source"].to_string();
    assert!(lacks.contains("the files after each step") && !lacks.contains("times of"), "{lacks}");
    let (run, again) = (stage.path("from-atif"), stage.path("atif-again"));
    let (run, out) = (run.to_str().unwrap(), again.to_str().unwrap());
    stage.run(["export", run, "--format", "atif", "--out", out], 0);
    for (before, after) in [
        (&first, again.join("tools-scripted/demo__roman-1.1.json")),
        (&noop, again.join("noop/demo__roman-1.1.json")),
    ] {
        let (before, after) = (read_json(before), read_json(&after));
        for part in ["steps", "agent", "final_metrics", "session_id"] {
            assert_eq!(before[part], after[part], "{part}");
        }
    }
    // All files in the folder are imported, except for the report that `export` adds.
    let arms = fs::read_dir(folder("mini")).unwrap().map(|entry| entry.unwrap().path());
    let arms: Vec<_> = arms.filter(|path| path.is_dir()).collect();
    let files = arms.iter().map(|arm| fs::read_dir(arm).unwrap().count()).sum::<usize>();
    let (fidelity, said) = import_files(stage, &[&folder("mini")], &[], "from-folder");
    assert!(files > 1 && fidelity["imported"][0]["trials"] == files, "{fidelity}");
    assert!(said.contains("note: ignored 1 other file in"), "{said}");
    // Each arm is imported with its own trials.
    let named = |out: &str| -> Vec<(String, u64)> {
        let report = stage.report(&stage.path(out));
        let arms = report["arms"].as_array().unwrap();
        let named =
            |arm: &Value| (arm["name"].as_str().unwrap().into(), arm["trials"].as_u64().unwrap());
        arms.iter().map(named).collect()
    };
    let whole = named("from-folder");
    assert_eq!(whole.len(), arms.len(), "{whole:?}");
    assert_eq!(whole.iter().map(|(_, trials)| *trials).sum::<u64>(), files as u64, "{whole:?}");
    // If there are several attempts, each has its own predictions file. Two files for one arm and
    // one for another must not create additional trials.
    let row = |model: &str| {
        format!(
            r#"{{"instance_id": "demo__roman-1", "model_name_or_path": "{model}", "model_patch": ""}}"#
        )
    };
    let rows = [("a.1", "a"), ("a.2", "a"), ("b.1", "b")];
    let rows = rows.map(|(name, model)| stage.write_file(&format!("{name}.jsonl"), &row(model)));
    let rows: Vec<&Path> = rows.iter().map(std::path::PathBuf::as_path).collect();
    import_files(stage, &rows, &["--tasks", DEMO_TASKS], "from-attempts");
    assert_eq!(named("from-attempts"), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    let attempts = stage.path("from-attempts");
    stage.run(["grade", attempts.to_str().unwrap()], 0);
    assert_eq!(stage.report(&attempts)["tasks"].as_array().unwrap().len(), 3);
    let pages = stage.path("attempts-pages");
    stage.run(["view", attempts.to_str().unwrap(), "--static", pages.to_str().unwrap()], 0);
    // Imported trials can be viewed like any other trial, and their patches can be graded.
    let shown = stage.run(["show", run, "demo__roman-1", "tools/scripted", "--step", "1"], 0);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("to_roman"), "{shown}");
    let pages = stage.path("imported-pages");
    stage.run(["view", run, "--static", pages.to_str().unwrap()], 0);
    assert!(pages.join("index.html").exists());
    stage.run(["grade", run], 0);
    let report = stage.report(Path::new(run));
    let of = |arm: &str| {
        report["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["arm"] == *arm_id(&report, arm))
            .unwrap()["resolved"]
            .clone()
    };
    assert_eq!([of("tools/scripted"), of("noop")], [json!(true), json!(false)]);

    // The other formats contain less information, and a message says so. Without Proctor's names,
    // the files look as if their own tools had written them.
    let unnamed = |form: &str, name: &str| {
        let mut value = read_json(&folder(form).join("tools-scripted").join(name));
        let own = value["info"].as_object_mut().unwrap().remove("proctor").unwrap();
        assert_eq!(own["arm"], "tools/scripted");
        stage.write_file(name, &value.to_string())
    };
    let mini = unnamed("mini", "demo__roman-1.1.traj.json");
    let agent = unnamed("swe-agent", "demo__roman-1.1.traj");
    let predictions = folder("swebench").join("tools-scripted.1.jsonl");
    let (fidelity, said) = import_files(stage, &[&mini, &agent, &predictions], &[], "from-three");
    let formats: Vec<&str> = fidelity["imported"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["format"].as_str().unwrap())
        .collect();
    assert_eq!(formats, ["mini", "swe-agent", "swebench"]);
    assert!(said.contains("swe-agent: missing from the files: times of responses (2)"), "{said}");
    let run = stage.path("from-three");
    let run = run.to_str().unwrap();
    for arm in ["mini-swe-agent", "swe-agent"] {
        let shown = stage.run(["show", run, "demo__roman-1", arm, "--step", "1"], 0);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains(&DEMO_SOLUTION[..20]) && shown.contains("== output"), "{shown}");
    }
    let report = stage.report(Path::new(run));
    assert_eq!(report["tasks"].as_array().unwrap().len(), 3);
    // If there is no dataset, there are no tests to run.
    let said = String::from_utf8(stage.run(["grade", run], 2).stderr).unwrap();
    assert!(said.contains("--tasks DATASET"), "{said}");

    // A corrupt file is rejected, and the message contains the position of the error.
    let text = fs::read_to_string(&first).unwrap();
    let cut = stage.write_file("cut.json", &text[..text.len() / 2]);
    let said = import_error(stage, &cut, &[]);
    assert!(said.contains("cut.json: line ") && said.contains("truncated"), "{said}");
    let mut value = read_json(&first);
    value["steps"][2]["step_id"] = json!(7);
    let gap = stage.write_file("gap.json", &value.to_string());
    assert!(
        import_error(stage, &gap, &[]).contains("gap.json: steps[2].step_id: expected 3, found 7")
    );
    value["steps"][2]["step_id"] = json!(3);
    value["extra"]["proctor"]["attempt"] = json!(1_000_000);
    let far = stage.write_file("far.json", &value.to_string());
    assert!(
        import_error(stage, &far, &[]).contains("far.json: attempt 1000000 is out of range (1 to")
    );
    value["steps"][2]["source"] = json!("robot");
    let robot = stage.write_file("robot.json", &value.to_string());
    let said = import_error(stage, &robot, &[]);
    assert!(said.contains("robot.json: steps[2].source") && said.contains("`robot`"), "{said}");
    value["steps"][2] = json!("a".repeat(100_000));
    let long = stage.write_file("long.json", &value.to_string());
    let said = import_error(stage, &long, &[]);
    assert!(said.contains("steps[2]: must be") && said.len() < 1_000, "{}", said.len());
    let stranger = stage.write_file(
        "other__task-1.traj.json",
        &fs::read_to_string(&mini).unwrap().replace("demo__roman-1", "other__task-1"),
    );
    assert!(
        import_error(stage, &stranger, &["--tasks", DEMO_TASKS])
            .contains("no task `other__task-1`")
    );
    assert!(
        import_error(stage, &stage.write_file("empty.jsonl", "[1]\n"), &[]).contains("empty.jsonl")
    );

    // Extremely long names are accepted, and every command that reads the run can handle them.
    let row = json!({"instance_id": "t".repeat(90_000), "model_name_or_path": "m".repeat(90_000),
        "model_patch": ""});
    let endless = stage.write_file("endless.jsonl", &format!("{row}\n"));
    import_files(stage, &[&endless], &[], "endless");
    let (run, out) = (stage.path("endless"), stage.path("endless-atif"));
    stage.run(["report", run.to_str().unwrap()], 0);
    let args = ["export", run.to_str().unwrap(), "--format", "atif", "--out"];
    stage.run([&args[..], &[out.to_str().unwrap()]].concat(), 0);
}

fn arm_id<'a>(report: &'a Value, name: &str) -> &'a Value {
    let arms = report["arms"].as_array().unwrap();
    &arms.iter().find(|arm| arm["name"] == name).unwrap()["arm"]
}

/// The id of an arm depends on its model, because two models may submit the same patch.
#[test]
fn import_keeps_models_with_equal_patches_as_separate_arms() {
    let stage = Stage::new();
    let row = |model: &str| {
        json!({"instance_id": "demo__roman-1", "model_name_or_path": model, "model_patch": ""})
            .to_string()
    };
    let file = stage.write_file("empty.jsonl", &[row("model-a"), row("model-b")].join("\n"));
    let ids = |command: &[&str], out: &str| -> Vec<String> {
        let (run, tasks) = (stage.path(out), ["--tasks", DEMO_TASKS, "--out"]);
        stage.run([command, &tasks[..], &[run.to_str().unwrap()]].concat(), 0);
        let report = stage.report(&run);
        let arms = report["arms"].as_array().unwrap();
        let names: Vec<&str> = arms.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["model-a", "model-b"], "{report:#}");
        assert!(arms.iter().all(|arm| arm["trials"] == arms[0]["trials"]), "{report:#}");
        arms.iter().map(|arm| arm["arm"].as_str().unwrap().to_owned()).collect()
    };
    let file = file.to_str().unwrap();
    for command in [&["grade", "--predictions", file][..], &["import", file]] {
        let first = ids(command, &format!("{}-first", command[0]));
        assert_ne!(first[0], first[1]);
        assert_eq!(first, ids(command, &format!("{}-again", command[0])));
    }
}
