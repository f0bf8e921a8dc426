//! Tests what a new user does in the first hour: runs Proctor from any directory, gives options in
//! any order, sets limits that are obvious mistakes, and plans trials that cannot run. Each problem
//! must be reported before anything starts.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fake_llm::{FakeLlm, Script};
use proctor_record::Journal;
use proctor_types::{ArmId, Event, TaskId};
use serde_json::{Value, json};

use crate::{
    resume::wait_for,
    stage::{Stage, find_files, repository_root},
};

/// Returns the only row of the demo.
fn demo_row() -> Value {
    let text = fs::read_to_string(repository_root().join("configs/tasks/demo.jsonl")).unwrap();
    let mut row: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    row["source"]["path"] =
        repository_root().join("configs/tasks/numerals").to_str().unwrap().into();
    row
}

fn write_rows(stage: &Stage, name: &str, rows: &[Value]) -> String {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    stage.write_file(name, &text).to_str().unwrap().to_owned()
}

fn write_config(stage: &Stage, tasks: &str, scaffold: &str, extra_lines: &str) -> String {
    let text = format!(
        "tasks = [{tasks:?}]\n{extra_lines}\n[[arms]]\nname = {scaffold:?}\nscaffold = {scaffold:?}\n"
    );
    stage.write_file(&format!("{scaffold}.toml"), &text).to_str().unwrap().to_owned()
}

fn checked_output(stage: &Stage, args: &[&str], status: i32) -> String {
    let output = stage.run(args, status);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    // A line with a statement in JSON may be long, because it is not a message.
    for line in said.lines().filter(|line| !line.starts_with("  \"")) {
        assert!(line.chars().count() < 500, "a line of {} characters: {line}", line.len());
    }
    assert!(!said.contains("Some(") && !said.contains("None)"), "{said}");
    said
}

#[test]
fn demo_runs_from_any_folder() {
    let stage = Stage::new();
    let demo = repository_root().join("configs/demo.toml");
    let plan = |config: &Path, here: &Path| {
        let mut command = stage.proctor(["run", config.to_str().unwrap(), "--dry-run"]);
        let output = command.current_dir(here).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{error}");
        stable_plan(&output.stdout)
    };
    let usual = plan(Path::new("configs/demo.toml"), &repository_root());
    assert!(usual.contains("demo__roman-1") && usual.contains("6 trials: "), "{usual}");
    assert_eq!(plan(&demo, stage.dir.path()), usual);
    assert_eq!(plan(Path::new("demo.toml"), &repository_root().join("configs")), usual);
    assert_eq!(plan(Path::new("../configs/demo.toml"), &repository_root().join("docs")), usual);
    // Use the same file, through a symlink with another name.
    symlink(&demo, stage.path("linked.toml")).unwrap();
    assert_eq!(plan(Path::new("linked.toml"), stage.dir.path()), usual);
    // Files with the same names in the current directory must be ignored.
    fs::create_dir_all(stage.path("tasks")).unwrap();
    stage.write_file("tasks/demo.jsonl", "not a row\n");
    assert_eq!(plan(&demo, stage.dir.path()), usual);
    // Run the demo in a place without a checkout of the repository.
    let output = stage.proctor(["run", "demo", "--dry-run"]);
    let mut output = output;
    let output = output.current_dir(stage.dir.path()).output().unwrap();
    assert_eq!(stable_plan(&output.stdout), usual);
}

/// Returns a plan without the parts that depend on the directory: free disk space and earlier runs.
fn stable_plan(plan: &[u8]) -> String {
    let plan = std::str::from_utf8(plan).unwrap();
    plan.lines()
        .filter(|line| !line.starts_with("disk:") && !line.starts_with("by "))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn paths_are_relative_to_their_configuration() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("one/data")).unwrap();
    fs::create_dir(stage.path("two")).unwrap();
    let tasks = demo_row().to_string() + "\n";
    stage.write_file("one/data/rows.jsonl", &tasks);
    stage.write_file("one/ids.txt", "demo__roman-1\n");
    let script = fs::read_to_string(repository_root().join("configs/scripts/demo.toml")).unwrap();
    stage.write_file("one/script.toml", &script);
    stage.write_file(
        "one/run.toml",
        "tasks = [\"data/*.jsonl#ids=ids.txt\"]\n[[arms]]\nname = \"a\"\nscaffold = \"tools\"\n\
         model = \"m\"\n[models.m]\nbase_url = \"script:script.toml\"\nname = \"m\"\n\
         [endpoints.e]\nbase_url = \"script:script.toml\"\nmax_concurrent = 1\n",
    );
    let run = |here: &str, more: &[&str]| {
        let mut command = stage.proctor([&["run", "../one/run.toml", "--dry-run"], more].concat());
        command.current_dir(stage.path(here)).output().unwrap()
    };
    let output = run("two", &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("task demo__roman-1"));
    // A path on the command line is relative to the current directory.
    let mut other = demo_row();
    other["id"] = "typed-1".into();
    fs::create_dir(stage.path("two/data")).unwrap();
    stage.write_file("two/data/rows.jsonl", &format!("{other}\n"));
    let output = run("two", &["--set", "tasks=[\"data/rows.jsonl\"]"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("task typed-1"));
    // If a path does not exist, the message shows it as it was written.
    let output = run("two", &["--set", "tasks=[\"no/such/*.jsonl\"]"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no file matches `no/such/*.jsonl`"));
}

#[test]
fn tasks_show_accepts_every_form_of_a_task_name() {
    let stage = Stage::new();
    let tasks = write_rows(&stage, "rows.jsonl", &[demo_row()]);
    let one = checked_output(&stage, &["tasks", "show", "demo__roman-1", "--tasks", &tasks], 0);
    assert_eq!(
        checked_output(&stage, &["tasks", "show", "--tasks", &tasks, "demo__roman-1"], 0),
        one
    );
    assert_eq!(
        checked_output(&stage, &["tasks", "show", "--tasks", &tasks, "--", "demo__roman-1"], 0),
        one
    );
    for wrong in ["demo__roman-2", "roman", "DEMO__ROMAN-1"] {
        let error = checked_output(&stage, &["tasks", "show", wrong, "--tasks", &tasks], 2);
        assert!(error.contains("did you mean `demo__roman-1`?"), "{error}");
    }
    let error = checked_output(&stage, &["tasks", "show", "--tasks", &tasks], 2);
    assert!(error.contains("no task given"), "{error}");
    let error = checked_output(&stage, &["tasks", "show", "zzz", "--tasks", &tasks], 2);
    assert!(error.contains("proctor tasks list") && !error.contains("did you mean"), "{error}");
    let list = checked_output(&stage, &["tasks", "list", "--tasks", &tasks], 0);
    assert!(list.starts_with("demo__roman-1\t") && list.lines().count() == 1, "{list}");
}

#[test]
fn invalid_limits_are_rejected() {
    let stage = Stage::new();
    let tasks = write_rows(&stage, "rows.jsonl", &[demo_row()]);
    let config = write_config(&stage, &tasks, "noop", "");
    for (key, value) in [
        ("budget.steps", "0"),
        ("budget.steps", "-1"),
        ("budget.input_tokens", "0"),
        ("budget.uncached_input_tokens", "0"),
        ("budget.cost_usd", "0"),
        ("budget.cost_usd", "0.0"),
        ("budget.wall_seconds", "0"),
        ("budget.tool_seconds", "nan"),
        ("budget.run.steps", "0"),
        ("budget.arm.cost_usd", "0"),
        ("arms.0.budget.steps", "0"),
        ("attempts", "0"),
        ("jobs", "0"),
        ("sandbox.cpus", "nan"),
        ("grading.memory_mb", "0"),
        ("grading.memory_mb", "1"),
    ] {
        let set = format!("{key}={value}");
        let error = checked_output(&stage, &["run", &config, "--dry-run", "--set", &set], 2);
        assert!(error.contains(&format!("--set: key `{key}`")), "{set}: {error}");
    }
    for args in [
        ["tasks", "validate", "--tasks", &tasks, "--repeat", "0"],
        ["tasks", "validate", "--tasks", &tasks, "--jobs", "0"],
        ["grade", "--predictions", "gold", "--tasks", &tasks, "--jobs=0"],
        ["grade", "--predictions", "gold", "--tasks", &tasks, "--cpus=nan"],
    ] {
        let error = checked_output(&stage, &args, 2);
        let key = args.iter().rev().find(|word| word.starts_with("--")).unwrap();
        assert!(error.contains(key.split('=').next().unwrap()), "{error}");
    }
    for (field, limits) in [
        ("timeouts.grade_seconds", json!({"timeouts": {"grade_seconds": 0.0}})),
        ("timeouts.command_seconds", json!({"timeouts": {"command_seconds": -1.0}})),
        ("resources.cpus", json!({"resources": {"cpus": 0.0}})),
        ("resources.memory_mb", json!({"resources": {"memory_mb": 0}})),
        ("resources.memory_mb", json!({"resources": {"memory_mb": 1}})),
        ("timeouts.grade_seconds", json!({"timeouts": {"grade_seconds": 1e300}})),
        ("test_command", json!({"test_command": []})),
        ("test_command", json!({"test_command": [" "]})),
        ("platform", json!({"platform": "arm"})),
    ] {
        let mut row = demo_row();
        row.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        let tasks = write_rows(&stage, "limits.jsonl", &[row]);
        let error = checked_output(&stage, &["tasks", "list", "--tasks", &tasks], 2);
        assert!(error.contains(&format!("field `{field}`")), "{error}");
    }
}

/// A requirement that this machine cannot meet is reported before anything starts.
#[test]
fn plan_that_exceeds_the_machine_is_rejected_or_warned_about() {
    let stage = Stage::new();
    let with = |more: Value| {
        let mut row = demo_row();
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let tasks = write_rows(&stage, "machine.jsonl", &[row]);
        write_config(&stage, &tasks, "noop", "")
    };
    let config_path = with(json!({"platform": "linux/riscv64"}));
    let error = checked_output(&stage, &["run", &config_path, "--dry-run"], 2);
    assert!(error.contains("linux/riscv64") && error.contains("hint"), "{error}");
    let here = if cfg!(target_arch = "x86_64") { "linux/amd64" } else { "linux/arm64" };
    let config_path = with(json!({"platform": here}));
    assert!(!checked_output(&stage, &["run", &config_path, "--dry-run"], 0).contains("warning"));
    let many = 10 * std::thread::available_parallelism().unwrap().get();
    for (task, set, status) in [
        (json!({"resources": {"cpus": many}}), "sandbox.cpus=1".to_owned(), 0),
        (json!({}), format!("sandbox.cpus={many}"), 0),
        (json!({"resources": {"memory_mb": 1_u64 << 30}}), "sandbox.cpus=1".to_owned(), 2),
        (json!({}), "sandbox.memory_mb=1073741824".to_owned(), 2),
    ] {
        let error =
            checked_output(&stage, &["run", &with(task), "--dry-run", "--set", &set], status);
        let told = match status {
            0 => format!("warning: a limit of {many} CPUs"),
            _ => "times what this machine has".to_owned(),
        };
        assert!(error.replace("\n ", " ").contains(&told), "{set}: {error}");
    }
}

/// Returns a row that needs an image, like the rows of most benchmarks.
fn image_row(id: &str) -> Value {
    let mut row = demo_row();
    row["id"] = id.into();
    row["environment"] = json!({"image": "registry.test/some/image:1"});
    row
}

#[test]
fn native_sandboxes_reject_image_rows_before_anything_starts() {
    let stage = Stage::new();
    let tasks = write_rows(&stage, "rows.jsonl", &[image_row("a-1"), demo_row(), image_row("a-2")]);
    let config = write_config(&stage, &tasks, "noop", "");
    let out = stage.path("out");
    let out_text = out.to_str().unwrap();
    for args in [
        &["run", &config, "--dry-run"][..],
        &["run", &config, "--out", out_text],
        &["tasks", "validate", "--tasks", &tasks, "--out", out_text],
        &["grade", "--predictions", "noop", "--tasks", &tasks, "--out", out_text],
    ] {
        let error = checked_output(&stage, args, 2);
        for part in ["2 tasks need a Docker image", "`a-1`, `a-2`", "docker"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let switch =
            if args[0] == "run" { "--set sandbox.kind=docker" } else { "--sandbox docker" };
        assert!(error.contains(switch), "{error}");
        assert!(!out.exists());
    }
    let docker = ["run", &config, "--dry-run", "--set", "sandbox.kind=docker"];
    assert!(checked_output(&stage, &docker, 0).contains("3 trials: 3 tasks x 1 arm x 1 attempt"));
    // A single affected arm is enough for an error, and the message names that arm.
    let text = fs::read_to_string(&config).unwrap();
    let two = format!(
        "{text}sandbox = {{ kind = \"docker\" }}\n[[arms]]\nname = \"b\"\nscaffold = \"noop\"\n"
    );
    let two = stage.write_file("two.toml", &two);
    let error = checked_output(&stage, &["run", two.to_str().unwrap(), "--dry-run"], 2);
    assert!(error.contains("(arm `b`)"), "{error}");
    // An archive needs no image in an engine. A missing archive is reported.
    let mut archive = image_row("a-3");
    archive["environment"]["image"] = "./missing.tar".into();
    let tasks = write_rows(&stage, "archive.jsonl", &[archive]);
    let error = checked_output(&stage, &["grade", "--predictions", "noop", "--tasks", &tasks], 2);
    assert!(error.contains("no such image archive") && error.contains("a-3"), "{error}");
}

#[test]
fn task_without_a_solution_runs_and_only_gold_is_rejected() {
    let stage = Stage::new();
    let mut secret = demo_row();
    secret["id"] = "secret-1".into();
    secret.as_object_mut().unwrap().remove("mask");
    secret.as_object_mut().unwrap().remove("gold");
    let tasks = write_rows(&stage, "rows.jsonl", &[secret]);
    assert!(checked_output(&stage, &["tasks", "list", "--tasks", &tasks], 0).contains("secret-1"));
    let shown = checked_output(&stage, &["tasks", "show", "secret-1", "--tasks", &tasks], 0);
    assert!(shown.contains("no gold and no mask"), "{shown}");
    checked_output(
        &stage,
        &["tasks", "show", "secret-1", "--tasks", &tasks, "--gold", "--json"],
        0,
    );

    let gold = write_config(&stage, &tasks, "gold", "");
    let out = stage.path("refused");
    let out_text = out.to_str().unwrap();
    for args in [
        &["run", &gold, "--dry-run"][..],
        &["run", &gold, "--out", out_text],
        &["tasks", "validate", "--tasks", &tasks, "--out", out_text],
        &["grade", "--predictions", "gold", "--tasks", &tasks, "--out", out_text],
    ] {
        let error = checked_output(&stage, args, 2);
        assert!(error.contains("`secret-1`") && error.contains("neither a gold"), "{error}");
        assert!(!out.exists());
    }
    let noop = write_config(&stage, &tasks, "noop", "");
    let out = stage.path("run");
    let table = checked_output(&stage, &["run", &noop, "--out", out.to_str().unwrap()], 0);
    for line in table.lines().filter(|line| line.starts_with(['│', '┌', '╞', '└'])) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // Nothing was removed from this task, so no test fails; the result of noop shows this.
    assert_eq!(stage.report(&out)["tasks"][0]["outcome"], "submitted");
    assert!(stage.report(&out)["tasks"][0]["resolved"].is_boolean());
}

/// Writes a trajectory for a task, as a run would record it.
fn write_trajectory(stage: &Stage, name: &str, task: &str) -> PathBuf {
    let path = stage.path(name);
    let mut journal = Journal::create(&path, 1).unwrap();
    let started = Event::TrialStarted {
        task: TaskId::new(task),
        arm: ArmId::new("a").to_string(),
        attempt: 1,
    };
    journal.append_durable(0, started).unwrap();
    path
}

#[test]
fn trajectory_of_another_task_is_not_replayed() {
    let stage = Stage::new();
    let mut other = demo_row();
    other["id"] = "other-1".into();
    let both = write_rows(&stage, "both.jsonl", &[demo_row(), other.clone()]);
    let alone = write_rows(&stage, "alone.jsonl", &[demo_row()]);
    let recorded = write_trajectory(&stage, "t.jsonl", "demo__roman-1");
    let replay = |tasks: &str, name: &str, recorded: &Path| {
        let text = format!(
            "tasks = [{tasks:?}]\n[[arms]]\nname = \"r\"\nscaffold = \"replay\"\nreplay = {recorded:?}\n"
        );
        stage.write_file(name, &text).to_str().unwrap().to_owned()
    };
    let good = replay(&alone, "good.toml", &recorded);
    let plan = checked_output(&stage, &["run", &good, "--dry-run"], 0);
    let wrong = replay(&both, "wrong.toml", &recorded);
    let out = stage.path("out");
    for args in
        [&["run", &wrong, "--dry-run"][..], &["run", &wrong, "--out", out.to_str().unwrap()]]
    {
        let error = checked_output(&stage, args, 2);
        for part in ["key `arms.0.replay`", "`demo__roman-1`", "`other-1`"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    assert!(!out.exists());
    // The content of the trajectory is part of the arm; its path is not.
    let moved = stage.path("moved.jsonl");
    fs::copy(&recorded, &moved).unwrap();
    let same = replay(&alone, "same.toml", &moved);
    assert_eq!(checked_output(&stage, &["run", &same, "--dry-run"], 0), plan);
    let longer = write_trajectory(&stage, "longer.jsonl", "demo__roman-1");
    Journal::open(&longer)
        .unwrap()
        .append_durable(0, Event::Noted { note: Default::default() })
        .unwrap();
    let differs = replay(&alone, "differs.toml", &longer);
    assert_ne!(checked_output(&stage, &["run", &differs, "--dry-run"], 0), plan);
    let empty = stage.write_file("empty.jsonl", "");
    let nothing = replay(&alone, "nothing.toml", &empty);
    assert!(
        checked_output(&stage, &["run", &nothing, "--dry-run"], 2)
            .contains("does not record a trial")
    );
}

#[test]
fn failed_validation_keeps_its_log() {
    let stage = Stage::new();
    let mut bad = demo_row();
    // This patch applies, but it does not restore the removed code.
    bad["gold"] = "diff --git a/notes.txt b/notes.txt\nnew file mode 100644\n--- /dev/null\n\
                   +++ b/notes.txt\n@@ -0,0 +1 @@\n+nothing\n"
        .into();
    let tasks = write_rows(&stage, "rows.jsonl", &[bad]);
    let error = checked_output(&stage, &["tasks", "validate", "--tasks", &tasks], 1);
    let line = error.lines().find(|line| line.contains("gold does not resolve it")).unwrap();
    let log = Path::new(line.rsplit_once("log: ").unwrap().1);
    assert!(fs::read_to_string(log).unwrap().contains("test_roman"), "{}", log.display());
    let kept = error.lines().find_map(|line| line.strip_prefix("run directory kept: ")).unwrap();
    assert!(log.starts_with(kept));
    fs::remove_dir_all(kept).unwrap();
    // In this task, the repository already contains the requested feature.
    let mut there = demo_row();
    let test = there["pass_to_pass"][0].clone();
    there["fail_to_pass"] = serde_json::json!([test]);
    there["pass_to_pass"] = serde_json::json!([]);
    let there = write_rows(&stage, "there.jsonl", &[there]);
    let error = checked_output(&stage, &["tasks", "validate", "--tasks", &there], 1);
    let line = error.lines().find(|line| line.contains("noop resolves it")).unwrap();
    let named = format!("fail-to-pass tests that passed: {}", test.as_str().unwrap());
    assert!(line.contains(&named), "{line}");
    let kept = error.lines().find_map(|line| line.strip_prefix("run directory kept: ")).unwrap();
    fs::remove_dir_all(kept).unwrap();
    let good = write_rows(&stage, "good.jsonl", &[demo_row()]);
    let error = checked_output(&stage, &["tasks", "validate", "--tasks", &good], 0);
    assert!(
        error.contains("valid: gold resolves") && !error.contains("run directory kept: "),
        "{error}"
    );
}

/// A script with two quick steps and then a slow response.
const SLOW_SCRIPT: &str = "[[conversation]]\n[[conversation.turn]]\n[[conversation.turn.tool_calls]]\n\
                    name = \"shell\"\narguments = { command = \"true\" }\n[[conversation.turn]]\n\
                    delay_seconds = 4.0\n[[conversation.turn.tool_calls]]\nname = \"submit\"\n\
                    arguments = {}\n";

/// Starts a run and sends SIGHUP while it is in progress. Returns the exit status and the output.
fn run_until_sighup(shell_prefix: &str) -> (Option<i32>, String) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script: Script = toml::from_str(SLOW_SCRIPT).unwrap();
    let fake = runtime.block_on(FakeLlm::start(script)).unwrap();
    let stage = Stage::new();
    let config = stage.write_file(
        "run.toml",
        &format!(
            "tasks = [\"configs/tasks/demo.jsonl\"]\n[[arms]]\nname = \"slow\"\n\
             scaffold = \"tools\"\nmodel = \"fake\"\n[models.fake]\nbase_url = \"{}\"\n\
             name = \"fake\"\n",
            fake.base_url()
        ),
    );
    let (out, bin) = (stage.path("run"), env!("CARGO_BIN_EXE_proctor"));
    let line = format!("{shell_prefix} {bin} run {} --out {}", config.display(), out.display());
    let usual = stage.proctor([""; 0]);
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(repository_root());
    command.envs(usual.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the second request", || (fake.requests().len() == 2).then_some(()));
    assert!(
        Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success()
    );
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.code() == Some(130) {
        assert!(find_files(&out, "outcome.json").is_empty());
    }
    (done.status.code(), said)
}

#[test]
fn sighup_ends_a_run_like_sigterm() {
    // The tests may have been started with `nohup`, so restore the default action for SIGHUP.
    let (status, said) = run_until_sighup("exec env --default-signal=HUP");
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("proctor resume"), "{said}");
}

/// `nohup` makes a process ignore SIGHUP, and Proctor must not change that.
#[test]
fn run_under_nohup_ignores_sighup() {
    let (status, said) = run_until_sighup("trap '' HUP; exec");
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn clean_removes_caches_and_keeps_runs() {
    let stage = Stage::new();
    let cache = stage.path("cache");
    let mut bare = demo_row();
    bare["environment"] = json!({"base": "host"});
    bare["test_command"] = json!(["python3", "-m", "pytest"]);
    let tasks = write_rows(&stage, "rows.jsonl", &[bare]);
    let config = write_config(&stage, &tasks, "noop", "");
    let proctor = |args: &[&str]| {
        let mut command = stage.proctor(args);
        // Don't use an engine, because cleaning would remove images that other tests use.
        command.env("PROCTOR_CACHE", &cache).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    // The cache directory also contains a run directory and files of the user.
    let out = cache.join("runs/one");
    proctor(&["run", &config, "--out", out.to_str().unwrap()]);
    assert!(out.join("run.json").is_file());
    stage.write_file("cache/tasks.jsonl", "mine");
    let layers = || {
        fs::read_dir(cache.join("native/layers"))
            .unwrap()
            .flatten()
            .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
            .count()
    };
    assert_eq!(layers(), 1);

    let (status, said) = proctor(&["clean", "--dry-run"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("native layer") && said.contains("would remove"), "{said}");
    assert_eq!(layers(), 1);
    let (_, said) = proctor(&["clean", "--older-than", "1d"]);
    assert!(said.contains("nothing to remove"), "{said}");
    // A live run has a lock on the cache, so nothing is removed.
    let file = fs::File::options().write(true).open(cache.join("in-use")).unwrap();
    file.lock_shared().unwrap();
    let (status, said) = proctor(&["clean"]);
    assert_eq!((status, layers()), (Some(0), 1), "{said}");
    assert!(said.contains("a live run uses it"), "{said}");
    drop(file);
    let (status, said) = proctor(&["clean"]);
    assert_eq!((status, layers()), (Some(0), 0), "{said}");
    assert!(said.contains("removed ") && said.contains("iB"), "{said}");
    assert!(out.join("run.json").is_file() && cache.join("tasks.jsonl").is_file());
    let (status, said) = proctor(&["clean", "--older-than", "soon"]);
    assert!(status == Some(2) && said.contains("30d"), "{said}");
}

#[test]
fn run_of_another_version_is_rejected() {
    let stage = Stage::new();
    let tasks = write_rows(&stage, "rows.jsonl", &[demo_row()]);
    for (name, record, parts) in [
        (
            "old",
            json!({"schema_version": 1, "proctor": "0.1.0"}),
            ["before Proctor 0.1.0", "0.1.0"],
        ),
        (
            "new",
            json!({"schema_version": 9, "proctor": "3.2.1"}),
            ["proctor 3.2.1", "run format 9"],
        ),
    ] {
        let run = stage.path(name);
        fs::create_dir(&run).unwrap();
        fs::write(run.join("run.json"), record.to_string()).unwrap();
        let run = run.to_str().unwrap();
        for args in [&["resume", run][..], &["report", run], &["grade", run, "--tasks", &tasks]] {
            let error = checked_output(&stage, args, 2);
            assert!(parts.iter().all(|part| error.contains(part)), "{args:?}: {error}");
        }
    }
}
