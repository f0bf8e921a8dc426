//! Tests `proctor export`, which writes a run in other tools' formats (`docs/reference/export.md`).

use std::{collections::BTreeSet, fs, io::Read as _, path::Path, process::Command};

use fake_llm::FakeLlm;
use serde_json::{Value, json};

use crate::{
    scripted_trial::script,
    stage::{DEMO_SOLUTION, Stage, find_files},
};

fn export_run(stage: &Stage, format: &str) -> (std::path::PathBuf, String) {
    let out = stage.path(format);
    let run = stage.path("run");
    let args =
        ["export", run.to_str().unwrap(), "--format", format, "--out", out.to_str().unwrap()];
    let said = stage.run(args, 0);
    (out, String::from_utf8(said.stderr).unwrap())
}

/// Tests the tables of a run, and the parts of a trial that the Python package reads.
#[test]
fn export_writes_tables_and_show_prints_parts() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(&[DEMO_SOLUTION.to_owned()]))).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[budget]\nsteps = 9\n\
             [[arms]]\nname = \"tools/scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n\
             price = {{ input = 1.0, output = 2.0 }}\n",
            fake.base_url()
        ),
    );
    let run = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", run.to_str().unwrap()], 0);
    let rows = |out: &Path, table: &str| -> Vec<Value> {
        let text = fs::read_to_string(out.join(format!("{table}.jsonl"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (out, _) = export_run(&stage, "jsonl");
    let trials = rows(&out, "trials");
    let report = stage.report(&run);
    assert_eq!(trials.len(), report["tasks"].as_array().unwrap().len());
    let of_arm = |rows: &[Value], arm: &str| -> Vec<Value> {
        rows.iter().filter(|row| row["arm_name"] == arm).cloned().collect()
    };
    let scripted = &of_arm(&trials, "tools/scripted")[0];
    assert_eq!(scripted["resolved"], true, "{scripted:#}");
    assert_eq!((&scripted["limit_steps"], &scripted["scaffold"]), (&9.into(), &"tools".into()));
    assert_eq!(scripted["integrity"], "clean");
    assert!(scripted["factors"].as_str().unwrap().contains("\"steps\":9"), "{scripted:#}");
    let steps = of_arm(&rows(&out, "steps"), "tools/scripted");
    assert_eq!(steps.len() as u64, scripted["steps"].as_u64().unwrap());
    for key in ["input_tokens", "output_tokens"] {
        let sum: u64 = steps.iter().map(|step| step[key].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), scripted[key].as_u64(), "{key}");
    }
    let cost: f64 = steps.iter().map(|step| step["cost_usd"].as_f64().unwrap()).sum();
    assert!((cost - scripted["cost_usd"].as_f64().unwrap()).abs() < 1e-5 && cost > 0.0, "{cost}");
    assert!(steps[0]["tools"] == "shell" && steps[0]["changed_paths"].as_u64() > Some(0));
    let tests = rows(&out, "tests");
    let passed = of_arm(&tests, "tools/scripted");
    assert!(!passed.is_empty() && passed.iter().all(|test| test["passed"] == true));
    let failed = of_arm(&tests, "noop");
    assert!(failed.iter().any(|test| test["kind"] == "fail_to_pass" && test["passed"] == false));
    let columns: Value =
        serde_json::from_slice(&fs::read(out.join("columns.json")).unwrap()).unwrap();
    let listed = columns["trials"].as_array().unwrap();
    assert_eq!(listed.len(), scripted.as_object().unwrap().len());

    let (out, said) = export_run(&stage, "parquet");
    for table in ["trials", "steps", "tests"] {
        let bytes = fs::read(out.join(format!("{table}.parquet"))).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}: {said}");
    }
    let (out, _) = export_run(&stage, "csv");
    let sheet = fs::read_to_string(out.join("trials.csv")).unwrap();
    let reported = stage.run(["report", run.to_str().unwrap(), "--format", "csv"], 0);
    assert_eq!(sheet, String::from_utf8(reported.stdout).unwrap());
    // `export` rejects a folder that is not empty.
    let (run_text, out_text) = (run.to_str().unwrap(), out.to_str().unwrap());
    let again = stage.run(["export", run_text, "--format", "parquet", "--out", out_text], 2);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"));

    let task = scripted["task"].as_str().unwrap().to_owned();
    let part = |arm: &str, more: &[&str]| -> Vec<u8> {
        let first = ["show", run_text, task.as_str(), arm, "1", "--print"];
        stage.run([&first[..], more].concat(), 0).stdout
    };
    let events = String::from_utf8(part("tools/scripted", &["events"])).unwrap();
    let kinds: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    assert!(kinds[0] == "trial_started" && kinds.last().unwrap() == "trial_ended", "{kinds:?}");
    assert!(part("tools/scripted", &["patch"]).starts_with(b"diff --git"));
    let verdict: Value = serde_json::from_slice(&part("tools/scripted", &["verdict"])).unwrap();
    assert_eq!(verdict["resolved"], true);
    let at = |step: &str| {
        part("tools/scripted", &["file", "--path", "numerals/roman.py", "--step", step])
    };
    assert!(!String::from_utf8(at("0")).unwrap().contains("from_roman"));
    assert!(String::from_utf8(at("1")).unwrap().contains("from_roman"));
    let tree: Value = serde_json::from_slice(&part("noop", &["tree"])).unwrap();
    assert!(tree.as_array().unwrap().iter().any(|entry| entry["path"] == "numerals/roman.py"));
    for (more, says) in [
        (&["--print", "file"][..], "needs a path"),
        (&["--print", "file", "--path", "nothing.py"][..], "no such file"),
        (&["--print", "tree", "--step", "77"][..], "no file tree after step 77"),
    ] {
        let args = [&["show", run_text, task.as_str(), "tools/scripted", "1"][..], more].concat();
        let said = stage.run(args, 2).stderr;
        assert!(String::from_utf8_lossy(&said).contains(says), "{more:?}");
    }
    let said = stage.run(["show", run_text, "--print", "events"], 2).stderr;
    assert!(String::from_utf8_lossy(&said).contains("--print needs one trial"));
}

#[test]
fn export_reports_what_is_left_out() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fake = runtime.block_on(FakeLlm::start(script(&[DEMO_SOLUTION.to_owned()]))).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n\
             [[arms]]\nname = \"tools/scripted\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
             [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n\
             [models.fake]\nbase_url = \"{}\"\nname = \"fake\"\n",
            fake.base_url()
        ),
    );
    let run = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", run.to_str().unwrap()], 0);

    let (out, said) = export_run(&stage, "atif");
    let read = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(out.join(name)).unwrap()).unwrap()
    };
    let trial = read("tools-scripted/demo__roman-1.1.json");
    assert_eq!(trial["schema_version"], "ATIF-v1.8");
    assert_eq!(trial["agent"]["model_name"], "fake");
    let steps = trial["steps"].as_array().unwrap();
    let sources: Vec<&str> = steps.iter().map(|step| step["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["system", "user", "agent", "agent"], "{trial:#}");
    for (index, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], index + 1);
    }
    let call = &steps[2]["tool_calls"][0];
    assert_eq!(call["arguments"]["command"], DEMO_SOLUTION);
    let result = &steps[2]["observation"]["results"][0];
    assert_eq!(result["source_call_id"], call["tool_call_id"]);
    assert_eq!(result["extra"]["exit_status"], 0);
    assert_eq!(trial["extra"]["proctor"]["verdict"]["resolved"], true);
    assert_eq!(trial["final_metrics"]["total_steps"], 4);
    assert_eq!(read("noop/demo__roman-1.1.json")["steps"].as_array().unwrap().len(), 1);
    assert!(said.contains("left out: the files after each step ("), "{said}");
    assert_eq!(read("fidelity.json")["trials"], 2);

    // Export the same conversation in other scaffolds' formats.
    let (out, _) = export_run(&stage, "mini");
    let text = fs::read(out.join("tools-scripted/demo__roman-1.1.traj.json")).unwrap();
    let mini: Value = serde_json::from_slice(&text).unwrap();
    let roles =
        mini["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap());
    let roles: Vec<&str> = roles.collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool"], "{mini:#}");
    assert_eq!(mini["info"]["exit_status"], "submitted");
    let (out, _) = export_run(&stage, "swe-agent");
    let text = fs::read(out.join("tools-scripted/demo__roman-1.1.traj")).unwrap();
    let agent: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(agent["trajectory"][0]["action"], DEMO_SOLUTION);
    assert_eq!(agent["info"]["submission"], mini["info"]["submission"]);

    let (out, _) = export_run(&stage, "inspect");
    let mut log =
        zip::ZipArchive::new(fs::File::open(out.join("tools-scripted.eval")).unwrap()).unwrap();
    let mut of = |name: &str| -> Value {
        let mut text = String::new();
        log.by_name(name).unwrap().read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let sample = of("samples/demo__roman-1_epoch_1.json");
    let roles =
        sample["messages"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap());
    assert_eq!(
        roles.collect::<Vec<_>>(),
        ["system", "user", "assistant", "tool", "assistant", "tool"]
    );
    assert_eq!(sample["scores"]["resolved"]["value"], true);
    let header = of("header.json");
    assert_eq!(header["results"]["scores"][0]["metrics"]["mean"]["value"], 1.0);
    assert_eq!(of("summaries.json").as_array().unwrap().len(), 1);

    let (out, _) = export_run(&stage, "otel");
    let lines = fs::read_to_string(out.join("tools-scripted.1.jsonl")).unwrap();
    let trace: Value = serde_json::from_str(lines.trim_end()).unwrap();
    let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["invoke_agent tools", "chat fake", "execute_tool shell"], "{trace:#}");
    for span in &spans[1..] {
        assert_eq!(span["parentSpanId"], spans[0]["spanId"]);
        let nanoseconds = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanoseconds("startTimeUnixNano") <= nanoseconds("endTimeUnixNano"), "{span:#}");
    }

    let (out, _) = export_run(&stage, "rollouts");
    let lines = fs::read_to_string(out.join("tools-scripted.1.jsonl")).unwrap();
    let rollout: Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!(rollout["messages"].as_array().unwrap().len(), 6);
    assert_eq!(
        (&rollout["resolved"], &rollout["tools"][0]["type"]),
        (&true.into(), &"function".into())
    );

    let (out, said) = export_run(&stage, "swebench");
    let lines = fs::read_to_string(out.join("tools-scripted.1.jsonl")).unwrap();
    let line: Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!(line["instance_id"], "demo__roman-1");
    assert!(line["model_patch"].as_str().unwrap().starts_with("diff --git"), "{line}");
    assert!(said.contains("left out: the model's responses"), "{said}");
    // The exported files are predictions. Grading them must give the same results.
    let again = stage.path("again");
    let file = out.join("tools-scripted.1.jsonl");
    let args =
        ["grade", "--predictions", file.to_str().unwrap(), "--tasks", "configs/tasks/demo.jsonl"];
    stage.run([&args[..], &["--out", again.to_str().unwrap()]].concat(), 0);
    assert_eq!(stage.report(&again)["tasks"][0]["resolved"], true);

    // In the experiments repository's format, its checker reads patch.diff and test_output.txt for
    // each task.
    let (out, said) = export_run(&stage, "swebench-submission");
    let split = out.join("evaluation/test");
    let mut folders: Vec<_> =
        fs::read_dir(&split).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    folders.sort();
    let name = |at: usize| folders[at].to_str().unwrap().split_once('_').unwrap();
    assert!(name(0).0.len() == 8 && name(0).0.bytes().all(|byte| byte.is_ascii_digit()));
    assert_eq!([name(0).1, name(1).1], ["noop", "tools-scripted"]);
    let folder = split.join(&folders[1]);
    let line = fs::read_to_string(folder.join("all_preds.jsonl")).unwrap();
    let line: Value = serde_json::from_str(line.trim_end()).unwrap();
    let patch = fs::read_to_string(folder.join("logs/demo__roman-1/patch.diff")).unwrap();
    assert_eq!(line["model_patch"], patch.as_str());
    let report = fs::read(folder.join("logs/demo__roman-1/report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let report = &report["demo__roman-1"];
    assert_eq!(
        (&report["resolved"], &report["patch_successfully_applied"]),
        (&true.into(), &true.into())
    );
    assert!(!report["tests_status"]["FAIL_TO_PASS"]["success"].as_array().unwrap().is_empty());
    assert!(folder.join("trajs/demo__roman-1.traj.json").exists());
    let metadata = fs::read_to_string(folder.join("metadata.yaml")).unwrap();
    assert!(metadata.contains("name: \"tools/scripted\"") && metadata.contains("attempts: \"1\""));
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(readme.contains("1 of 1 tasks resolved") && !readme.contains('{'), "{readme}");
    // The demo has no official grading procedure, and noop submits nothing.
    assert!(said.contains("not graded by the benchmark's own procedure"), "{said}");
    assert!(!folder.join("logs/demo__roman-1/test_output.txt").exists());
    assert!(!split.join(&folders[0]).join("logs").exists());

    crate::import::check_export_round_trip(&stage, |form| stage.path(form));

    // `export` rejects a folder that is not empty, and names a corrupt trial.
    let args =
        ["export", run.to_str().unwrap(), "--format", "atif", "--out", out.to_str().unwrap()];
    let said = String::from_utf8(stage.run(args, 2).stderr).unwrap();
    assert!(said.contains("is not empty") && said.contains("hint: "), "{said}");
    let journal = crate::stage::find_files(&run.join("trials"), "trajectory.jsonl").remove(0);
    fs::write(
        &journal,
        fs::read_to_string(&journal).unwrap().replacen("\"step\":0", "\"step\":7", 1),
    )
    .unwrap();
    fs::remove_dir_all(stage.path("atif")).unwrap();
    let (_, said) = export_run(&stage, "atif");
    assert!(said.contains("not written: demo__roman-1 / ") && said.contains("corrupt"), "{said}");
}

/// Ids whose file names would be the same after characters are replaced, and one that is not a
/// valid file name.
const SIMILAR_IDS: [&str; 8] = ["a/b", "a-b", "A/b", "größe", "gr--e", "a_b", "../a", "a..b"];

/// Creates a run that contains one trial for each task.
fn import_run(stage: &Stage, tasks: &[String]) -> std::path::PathBuf {
    let row = |task: &String| {
        let patch = format!("diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+{task}\n");
        json!({"instance_id": task, "model_name_or_path": "m", "model_patch": patch}).to_string()
    };
    let rows: Vec<String> = tasks.iter().map(row).collect();
    let (file, run) = (stage.write_file("rows.jsonl", &rows.join("\n")), stage.path("run"));
    stage.run(["import", file.to_str().unwrap(), "--out", run.to_str().unwrap()], 0);
    run
}

/// Returns the paths of all files below a folder, relative to the folder.
fn list_files(folder: &Path) -> Vec<String> {
    let listed =
        Command::new("find").args([".", "-type", "f"]).current_dir(folder).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

#[test]
fn export_separates_tasks_with_similar_names() {
    let stage = Stage::new();
    let long = |end: &str| "t".repeat(300) + end;
    let tasks: Vec<String> =
        SIMILAR_IDS.map(str::to_owned).into_iter().chain([long("a"), long("b")]).collect();
    import_run(&stage, &tasks);
    for (form, ending) in [("atif", "json"), ("mini", "traj.json"), ("swe-agent", "traj")] {
        let (out, _) = export_run(&stage, form);
        let found = list_files(&out.join("m"));
        assert_eq!(found.len(), tasks.len(), "{form}: {found:?}");
        for file in &found {
            let text = fs::read(out.join("m").join(file)).unwrap();
            serde_json::from_slice::<Value>(&text).unwrap();
        }
        // On a case-insensitive file system, names that differ only in case would also collide.
        let folded: BTreeSet<String> = found.iter().map(|file| file.to_lowercase()).collect();
        assert_eq!(folded.len(), tasks.len(), "{form}: {found:?}");
        for plain in ["a-b", "gr--e", "a_b", "a..b"] {
            assert!(found.contains(&format!("{plain}.1.{ending}")), "{form}: {found:?}");
        }
        // A file name depends neither on when the run is exported nor on the run's other tasks.
        let hash = &proctor_types::sha256_hex(b"a/b")[..16];
        assert!(found.contains(&format!("a-b~{hash}.1.{ending}")), "{form}: {found:?}");
        let again = stage.path(&format!("{form}-again"));
        let args = ["import", out.to_str().unwrap(), "--out", again.to_str().unwrap()];
        stage.run(args, 0);
        let report = stage.report(&again);
        let trials = report["tasks"].as_array().unwrap();
        let named: BTreeSet<&str> =
            trials.iter().map(|trial| trial["task"].as_str().unwrap()).collect();
        assert_eq!(named, tasks.iter().map(String::as_str).collect(), "{form}");
    }

    let (out, _) = export_run(&stage, "swebench-submission");
    let found = list_files(&out);
    let of = |part: &str| found.iter().filter(|file| file.contains(part)).count();
    assert_eq!((of("/trajs/"), of("/patch.diff")), (tasks.len(), tasks.len()), "{found:?}");
    assert_eq!(of("/logs/a-b/") + of("/logs/größe/"), 1, "{found:?}");

    // Inspect looks up a sample by its id.
    let (out, _) = export_run(&stage, "inspect");
    let log = zip::ZipArchive::new(fs::File::open(out.join("m.eval")).unwrap()).unwrap();
    let names = log.file_names().map(|name| name.unwrap().into_owned());
    let samples: Vec<String> = names.filter(|name| name.starts_with("samples/")).collect();
    assert_eq!(samples.len(), tasks.len(), "{samples:?}");
    assert!(samples.iter().any(|name| name == "samples/a/b_epoch_1.json"), "{samples:?}");
    assert!(!samples.iter().any(|name| name.contains("../")), "{samples:?}");
}

#[test]
fn export_continues_if_a_patch_is_not_a_file() {
    let stage = Stage::new();
    let run = import_run(&stage, &["one".to_owned(), "two".to_owned()]);
    let (out, _) = export_run(&stage, "swebench");
    let whole = fs::read_to_string(out.join("m.1.jsonl")).unwrap();
    let patches = find_files(&run.join("trials"), "patch.diff");
    for kind in ["mkdir", "mkfifo"] {
        for patch in &patches {
            let _ = fs::remove_file(patch).or_else(|_| fs::remove_dir(patch));
            assert!(Command::new(kind).arg(patch).status().unwrap().success());
        }
        fs::remove_dir_all(&out).unwrap();
        export_run(&stage, "swebench");
        assert_eq!(fs::read_to_string(out.join("m.1.jsonl")).unwrap(), whole, "{kind}");
    }
    // Use a named pipe without a writer: reading it would block forever.
    let log = patches[0].parent().unwrap().join("grade/log.txt");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    let (out, _) = export_run(&stage, "swebench-submission");
    assert_eq!(find_files(&out, "patch.diff").len(), 2);
}
