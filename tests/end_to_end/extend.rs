//! Tests that `run --extend`, `rerun`, `run --tasks`, `--limit` and `--jobs` run only missing
//! trials.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use fake_llm::{FakeLlm, Script};
use serde_json::{Value, json};

use crate::stage::{DEMO_SOLUTION, Stage, find_arm, find_files, repository_root};

/// A scripted model that is called over HTTP, and the configurations of a run that uses it.
struct MatrixRun {
    stage: Stage,
    runtime: tokio::runtime::Runtime,
    fake: FakeLlm,
}

impl MatrixRun {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let shell =
            json!({"tool_calls": [{"name": "shell", "arguments": {"command": DEMO_SOLUTION}}]});
        let bash = |line: &str| json!({"content": format!("```bash\n{line}\n```")});
        let submit = json!({"tool_calls": [{"name": "submit", "arguments": {}}]});
        let end = bash("proctor-submit");
        let script = json!({"conversation": [
            {"model": "for-bash", "turn": [bash("ls"), bash(DEMO_SOLUTION), end]},
            {"turn": [{"tool_calls": [{"name": "shell", "arguments": {"command": "ls"}}]}, shell, submit]},
        ]});
        let script: Script = serde_json::from_value(script).unwrap();
        let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
        Self { stage: Stage::new(), runtime, fake }
    }

    fn write_config(&self, name: &str, lines: &str) -> PathBuf {
        let _inside = self.runtime.enter();
        let url = self.fake.base_url();
        let text = format!(
            "tasks = [\"{}\"]\n{lines}\n\
             [models.fake]\nbase_url = \"{url}\"\nname = \"fake\"\n\
             [models.for-bash]\nbase_url = \"{url}\"\nname = \"for-bash\"\n",
            self.write_tasks(2).display()
        );
        self.stage.write_file(name, &text)
    }

    /// Writes `count` copies of the demo task with different ids.
    fn write_tasks(&self, count: usize) -> PathBuf {
        let demo = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
        let mut task: Value = serde_json::from_str(demo.lines().next().unwrap()).unwrap();
        task["source"]["path"] =
            repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
        let rows = (0..count).map(|index| {
            task["id"] = format!("demo__{}-{index}", ["roman", "other"][index % 2]).into();
            format!("{task}\n")
        });
        let rows: String = rows.collect();
        self.stage.write_file(&format!("tasks-{count}.jsonl"), &rows)
    }

    fn run(&self, config: &Path, out: &Path, args: &[&str], status: i32) -> String {
        let all = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = self.stage.run(all.iter().chain(args), status);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn request_count(&self) -> usize {
        self.fake.requests().len()
    }
}

/// Returns every file below the run's trials, with its content and modification time.
fn trial_files(run: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    fn collect_files(folder: &Path, out: &mut BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => collect_files(&entry.path(), out),
                false => {
                    let time = entry.metadata().unwrap().modified().unwrap();
                    out.insert(entry.path(), (fs::read(entry.path()).unwrap(), time));
                }
            }
        }
    }
    let mut out = BTreeMap::new();
    collect_files(&run.join("trials"), &mut out);
    out
}

/// Three scaffolds, each with two step limits, and two attempts at one task.
const MATRIX_CONFIG: &str = "attempts = 2\njobs = 2\n\
    [[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n\
    [[arms]]\nname = \"tools\"\nscaffold = \"tools\"\nmodel = \"fake\"\n\
    [[arms]]\nname = \"bash\"\nscaffold = \"bash\"\nmodel = \"for-bash\"\n\
    [matrix]\nbudget.steps = [1, 9]\n";

#[test]
fn extend_runs_only_missing_trials_of_a_matrix() {
    let crossed = MatrixRun::new();
    let one = ["--tasks", "*roman*", "--jobs", "3"];
    let config = crossed.write_config("matrix.toml", MATRIX_CONFIG);
    let out = crossed.stage.path("run");
    // First run some of the arms, then all of them.
    let said = crossed.run(&config, &out, &[&one[..], &["--arms", "{noop,tools}/*"]].concat(), 0);
    assert!(said.contains("note: running 4 of 6 arms"), "{said}");
    assert_eq!(crossed.stage.report(&out)["arms"].as_array().unwrap().len(), 4);
    let said = crossed.run(&config, &out, &["--arms", "tool/steps=9", "--extend"], 2);
    assert!(
        said.contains("--arms tool/steps=9: no arm") && said.contains("`tools/steps=9`"),
        "{said}"
    );
    let said = crossed.run(&config, &out, &[&one[..], &["--extend"]].concat(), 0);
    assert!(said.contains("added: 2 arms, 0 tasks, 0 attempts"), "{said}");
    let report = crossed.stage.report(&out);
    assert_eq!(report["arms"].as_array().unwrap().len(), 6);
    for (name, resolved, steps) in [
        ("noop/steps=1", 0, 0),
        ("noop/steps=9", 0, 0),
        ("tools/steps=1", 0, 1),
        ("tools/steps=9", 2, 3),
        ("bash/steps=1", 0, 1),
        ("bash/steps=9", 2, 3),
    ] {
        let found = find_arm(&report, name);
        assert_eq!(
            (&found["trials"], &found["resolved"]),
            (&2.into(), &resolved.into()),
            "{name}: {found:#}"
        );
        assert_eq!(found["steps"]["max"], steps, "{name}: {found:#}");
    }
    let asked = crossed.request_count();
    assert_eq!(asked, 16, "two attempts of 1 + 3 answers, with two scaffolds");
    let record: Value = serde_json::from_slice(&fs::read(out.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["selection"], json!({"tasks": "*roman*", "seed": 0, "of": 2}));
    assert_eq!(record["jobs"], 3);

    // If the same command is run again, there is nothing to do.
    let before = trial_files(&out);
    crossed.run(&config, &out, &[&one[..], &["--extend"]].concat(), 0);
    assert_eq!((crossed.request_count(), trial_files(&out)), (asked, before.clone()));

    // Add one arm.
    let lines = "attempts = 2\n[[arms]]\nname = \"tools\"\nscaffold = \"tools\"\nmodel = \"fake\"\nbudget = { steps = 2 }\n";
    let config = crossed.write_config("more.toml", lines);
    let look = ["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let look = crossed.stage.run([&look[..], &one[..], &["--extend", "--dry-run"]].concat(), 0);
    let plan = String::from_utf8_lossy(&look.stdout).into_owned();
    assert!(
        plan.contains("added: 1 arm, 0 tasks, 0 attempts\ntrial demo__roman-0/tools/1\n"),
        "{plan}"
    );
    assert!(plan.contains("2 trials to run; 12 of 14 already exist"), "{plan}");
    assert_eq!(
        (crossed.request_count(), trial_files(&out)),
        (asked, before.clone()),
        "a dry run changes nothing"
    );
    let said = crossed.run(&config, &out, &[&one[..], &["--extend"]].concat(), 0);
    assert!(said.contains("added: 1 arm, 0 tasks, 0 attempts"), "{said}");
    assert_eq!(crossed.request_count() - asked, 4, "two trials of two answers");
    let report = crossed.stage.report(&out);
    assert_eq!(report["arms"].as_array().unwrap().len(), 7);
    assert_eq!(find_arm(&report, "tools")["steps"]["max"], 2);
    let after = trial_files(&out);
    for (path, content) in &before {
        assert_eq!(after.get(path), Some(content), "{} was touched", path.display());
    }

    // Add one task and one attempt to every arm in the run, including those from the first command.
    let asked = crossed.request_count();
    let more = lines.replace("attempts = 2", "attempts = 3");
    let config = crossed.write_config("third.toml", &more);
    let said = crossed.run(&config, &out, &["--extend", "--no-preflight"], 0);
    assert!(said.contains("added: 0 arms, 1 task, 1 attempt"), "{said}");
    // There are seven arms. Each needs one more attempt at the first task and three at the second:
    // 0 + 0 + 1 + 3 + 1 + 3 + 2 responses for each attempt.
    assert_eq!(crossed.request_count() - asked, 40);
    let report = crossed.stage.report(&out);
    assert_eq!(find_arm(&report, "bash/steps=9")["trials"], 6);
    assert_eq!(report["arms"][0]["complete"], true);
    let third = trial_files(&out);
    for (path, content) in &after {
        assert_eq!(third.get(path), Some(content), "{} was touched", path.display());
    }
}

#[test]
fn extend_adds_an_arm_for_a_changed_factor_and_rejects_a_changed_task() {
    let crossed = MatrixRun::new();
    let lines =
        "[[arms]]\nname = \"a\"\nscaffold = \"tools\"\nmodel = \"fake\"\n[budget]\nsteps = 1\n";
    let config = crossed.write_config("a.toml", lines);
    let out = crossed.stage.path("run");
    crossed.run(&config, &out, &["--limit", "1"], 0);
    let before = trial_files(&out);
    let config = crossed
        .write_config("b.toml", &lines.replace("steps = 1", "steps = 9\nending = \"grace\""));
    let said = crossed.run(&config, &out, &["--limit", "1", "--extend"], 0);
    assert!(said.contains("new arm is named `a/"), "{said}");
    let report = crossed.stage.report(&out);
    let names: Vec<_> = report["arms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arm| arm["name"].as_str().unwrap())
        .collect();
    assert!(
        names[0] == "a" && names[1].starts_with("a/") && names[1].contains("steps=9"),
        "{names:?}"
    );
    let after = trial_files(&out);
    assert!(before.iter().all(|(path, content)| after.get(path) == Some(content)));

    // Use two limits with the same sampling. The larger sample contains the smaller one, so no
    // trial is paid for twice.
    let asked = crossed.request_count();
    crossed.run(&config, &out, &["--limit", "2", "--extend"], 0);
    assert_eq!(crossed.request_count() - asked, 1 + 3);

    let tasks = crossed.write_tasks(2);
    let text = fs::read_to_string(&tasks).unwrap();
    let changed = crossed.stage.write_file(
        "changed.jsonl",
        &text.replace("\"level\":1", "\"level\":2").replace("Roman", "roman"),
    );
    let set = format!("tasks=[\"{}\"]", changed.display());
    let said = crossed.run(&config, &out, &["--extend", "--set", &set], 2);
    assert!(said.contains("has changed since the run was planned"), "{said}");
    for (args, said) in [
        (vec!["--extend", "--tasks", "*romann*"], "no task ID in the configuration"),
        (vec![], "add to it with --extend"),
    ] {
        let told = crossed.run(&config, &out, &args, 2);
        assert!(told.contains(said), "{told}");
    }
    let told = crossed.run(&config, &crossed.stage.path("none"), &["--extend"], 2);
    assert!(told.contains("is not a run directory"), "{told}");
}

#[test]
fn rerun_keeps_the_earlier_try() {
    let crossed = MatrixRun::new();
    let lines = "[[arms]]\nname = \"a\"\nscaffold = \"tools\"\nmodel = \"fake\"\n[[arms]]\nname = \"n\"\nscaffold = \"noop\"\n";
    let config = crossed.write_config("a.toml", lines);
    let out = crossed.stage.path("run");
    crossed.run(&config, &out, &["--limit", "1"], 0);
    let (before, asked) = (trial_files(&out), crossed.request_count());
    let rerun = |select: &str| {
        let output = crossed.stage.run(["rerun", out.to_str().unwrap(), "--select", select], 0);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for select in ["faulted", "missing"] {
        let said = rerun(select);
        assert!(said.contains("nothing to re-run"), "{said}");
    }
    assert_eq!((crossed.request_count(), trial_files(&out)), (asked, before.clone()));

    let said = rerun("all");
    assert!(said.contains("re-running 2 trials:") && said.contains("/a/1: "), "{said}");
    assert_eq!(crossed.request_count(), 2 * asked);
    let after = trial_files(&out);
    for (path, (content, _)) in &before {
        let kept = path.parent().unwrap();
        let kept = match kept.file_name().unwrap() == "grade" {
            true => kept.parent().unwrap().join("tries/1/grade").join(path.file_name().unwrap()),
            false => kept.join("tries/1").join(path.file_name().unwrap()),
        };
        assert_eq!(after.get(&kept).map(|(kept, _)| kept), Some(content), "{}", kept.display());
    }
    let report = crossed.stage.report(&out);
    assert_eq!(
        (&report["arms"][0]["trials"], &report["arms"][0]["resolved"]),
        (&1.into(), &1.into())
    );
    let text = crossed.stage.run(["report", out.to_str().unwrap()], 0);
    let text =
        String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Re-run: 2 trials"), "{text}");

    // The run continues incomplete trials and keeps finished ones, so it sends no request twice.
    let verdicts = find_files(&out.join("trials"), "verdict.json");
    let top = verdicts.iter().find(|path| !path.to_string_lossy().contains("/tries/")).unwrap();
    fs::remove_file(top).unwrap();
    fs::remove_dir_all(top.parent().unwrap().join("grade")).unwrap();
    let said = rerun("missing");
    assert!(said.contains("re-running 1 trial:") && said.contains("not graded"), "{said}");
    assert_eq!(crossed.request_count(), 2 * asked);
    assert!(top.exists());

    // If a trial's record was removed, the trial runs again, and from then on the report mentions
    // this.
    fs::remove_dir_all(top.parent().unwrap()).unwrap();
    crossed.stage.run(["resume", out.to_str().unwrap()], 2);
    assert!(!top.exists(), "nothing runs before the user confirms");
    crossed.stage.run(["resume", out.to_str().unwrap(), "--confirm"], 0);
    let text = crossed.stage.run(["report", out.to_str().unwrap()], 0);
    let text =
        String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Re-run: 1 trial whose records were removed ("), "{text}");
}
