//! Runs the attack pack against one small row in each dataset format. Under `strict`, no attack may
//! resolve its task with a clean verdict.
//!
//! The core tier runs two attacks on one format. `PROCTOR_TIER=full` runs the whole pack on every
//! format, each with its own environment, which takes minutes. `PROCTOR_ATTACK_SHAPES` and
//! `PROCTOR_ATTACK` select other formats and attacks.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{stage::Stage, tier::is_full};

const HEADS: &str = "def heads():\n    return 1\n";
const TAILS: &str = "\n\ndef tails():\n    return 0\n";
const KEPT_TESTS: &str = "import coin\n\n\ndef test_heads():\n    assert coin.heads() == 1\n";
/// Tests that the test patch adds to the file. The benchmarks' harnesses run only files that the
/// test patch changes.
const ADDED_TESTS: &str = "\n\ndef test_tails():\n    assert coin.tails() == 0\n\n\n\
    def test_both():\n    assert [coin.heads(), coin.tails()] == [1, 0]\n";
/// The tests of a task in which the agent starts from an empty repository.
const SCRATCH_TESTS: &str = "import agent_code\n\n\ndef test_tails():\n    assert agent_code.tails() == 0\n\n\n\
    def test_twice():\n    assert [agent_code.tails(), agent_code.tails()] == [0, 0]\n";
const SETUP: &str = "from setuptools import setup, find_packages\n\nsetup(name=\"agent_code\", packages=find_packages())\n";
const PROJECT: &str = "[tool.pytest.ini_options]\npythonpath = [\".\"]\n";
const FAIL_TO_PASS: [&str; 2] = ["tests/test_coin.py::test_tails", "tests/test_coin.py::test_both"];
const PASS_TO_PASS: [&str; 1] = ["tests/test_coin.py::test_heads"];
const PIP_INSTALL: &str =
    "/venv/bin/pip install -q pytest==8.4.2 pytest-timeout==2.4.0 setuptools==80.9.0 wheel==0.45.1";

/// Returns a patch with a hunk that adds or removes lines after the lines in `context_lines`.
fn hunk(path: &str, context_lines: &str, text: &str, is_addition: bool) -> String {
    let (old, new) =
        (context_lines.lines().count(), context_lines.lines().count() + text.lines().count());
    let (old, new, sign) = if is_addition { (old, new, '+') } else { (new, old, '-') };
    let body =
        |text: &str, sign| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    let side = |prefix: char, count| match count {
        0 => "/dev/null".to_owned(),
        _ => format!("{prefix}/{path}"),
    };
    let mode = match (old, new) {
        (0, _) => "new file mode 100644\n",
        (_, 0) => "deleted file mode 100644\n",
        _ => "",
    };
    let start = |count| usize::from(count > 0);
    format!(
        "diff --git a/{path} b/{path}\n{mode}--- {}\n+++ {}\n@@ -{},{old} +{},{new} @@\n{}{}",
        side('a', old),
        side('b', new),
        start(old),
        start(new),
        body(context_lines, ' '),
        body(text, sign)
    )
}

fn solution_patch() -> String {
    hunk("coin.py", HEADS, TAILS, true)
}

fn test_patch() -> String {
    hunk("tests/test_coin.py", KEPT_TESTS, ADDED_TESTS, true)
}

fn all_tests() -> String {
    format!("{KEPT_TESTS}{ADDED_TESTS}")
}

/// Returns a row with the fields that all SWE-bench formats share, and with the fields in
/// `extra_fields`.
fn swe_bench_row(id: &str, extra_fields: Value) -> Value {
    let mut row = json!({
        "repo": "pallets/flask", "instance_id": id, "base_commit": "0123456789", "patch": solution_patch(),
        "test_patch": test_patch(), "problem_statement": "Write tails().", "hints_text": "",
        "created_at": "2024-11-01T00:00:00Z", "version": "2.0",
        "FAIL_TO_PASS": FAIL_TO_PASS, "PASS_TO_PASS": PASS_TO_PASS
    });
    for (name, value) in extra_fields.as_object().unwrap() {
        row[name] = value.clone();
    }
    row
}

fn eval_script() -> String {
    format!(
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\ngit apply -v - <<'EOF_1'\n{}\nEOF_1\n\
         : '>>>>> Start Test Output'\npytest -rA tests/test_coin.py tests/test_kept.py\n\
         : '>>>>> End Test Output'\n",
        test_patch()
    )
}

fn featurebench_row(level: u32) -> Value {
    let settings = json!({
        "repository": "acme/coin", "library_name": "coin", "use_uv": false, "timeout_run": 120, "timeout_one": 30,
        "test_cmd": "pytest -rA -p no:cacheprovider --color=no", "black_links": [],
        "docker_specs": {"run_args": {}, "custom_docker_args": []}
    });
    let mut row = json!({
        "instance_id": format!("acme__coin.01234567.test_coin.89abcdef.lv{level}"), "repo": "acme/coin",
        "patch": hunk("coin.py", HEADS, TAILS, false), "test_patch": hunk("tests/test_coin.py", "", &all_tests(), false),
        "FAIL_TO_PASS": ["tests/test_coin.py"], "PASS_TO_PASS": ["tests/test_kept.py"],
        "image_name": "x/y", "base_commit": "0123456789", "problem_statement": "## Task\nWrite tails().",
        "repo_settings": settings.to_string()
    });
    if level == 2 {
        row["patch"] = "".into();
        row["PASS_TO_PASS"] = json!([]);
        row["test_patch"] = test_replacement().into();
        let package = "def tails():\n    return 0\n";
        let files = [("setup.py", SETUP), ("agent_code/__init__.py", package)];
        row["gold"] = files.map(|(path, text)| hunk(path, "", text, true)).concat().into();
    }
    row
}

/// Returns a patch that replaces one test file with another.
fn test_replacement() -> String {
    let body =
        |text: &str, sign| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    format!(
        "diff --git a/tests/test_coin.py b/tests/test_coin.py\n--- a/tests/test_coin.py\n+++ b/tests/test_coin.py\n\
         @@ -1,{} +1,{} @@\n{}{}",
        all_tests().lines().count(),
        SCRATCH_TESTS.lines().count(),
        body(&all_tests(), '-'),
        body(SCRATCH_TESTS, '+')
    )
}

/// Returns shell lines that create the files in the repository, one file per line.
fn setup_lines(has_solution: bool) -> String {
    let module = if has_solution { format!("{HEADS}{TAILS}") } else { HEADS.to_owned() };
    let tests = if has_solution { all_tests() } else { KEPT_TESTS.to_owned() };
    let files = [
        ("coin.py", module.as_str()),
        ("tests/test_coin.py", tests.as_str()),
        ("tests/test_kept.py", KEPT_TESTS),
        ("pyproject.toml", PROJECT),
    ];
    let write = |(path, text): &(&str, &str)| {
        format!(
            "mkdir -p /testbed/tests && printf '{}' > /testbed/{path}\n",
            text.replace('\n', "\\n")
        )
    };
    let files: String = files.iter().map(write).collect();
    format!("python3 -m venv /venv\n{PIP_INSTALL}\n{files}")
}

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Creates a clone that contains a squashed pull request. Returns the row, which contains only ids.
fn fea_bench_row(clone: &Path) -> Value {
    fs::create_dir_all(clone.join("tests")).unwrap();
    let write = |path: &str, text: &str| fs::write(clone.join(path), text).unwrap();
    git(clone, &["init", "-q", "-b", "main", "."]);
    [("coin.py", HEADS), ("tests/test_coin.py", KEPT_TESTS), ("pyproject.toml", PROJECT)]
        .iter()
        .for_each(|(path, text)| write(path, text));
    git(clone, &["add", "-A"]);
    git(clone, &["commit", "-q", "-m", "heads"]);
    let base = git(clone, &["rev-parse", "HEAD"]);
    write("coin.py", &format!("{HEADS}{TAILS}"));
    write("tests/test_coin.py", &all_tests());
    git(clone, &["add", "-A"]);
    git(clone, &["commit", "-q", "-m", "Add tails (#7)\n\nA coin has two sides."]);
    json!({
        "instance_id": "acme__coin-7", "pull_number": 7, "repo": "acme/coin", "version": null, "base_commit": base,
        "environment_setup_commit": base, "FAIL_TO_PASS": FAIL_TO_PASS, "PASS_TO_PASS": PASS_TO_PASS
    })
}

fn proctor_row(source: &Path) -> Value {
    fs::create_dir_all(source.join("tests")).unwrap();
    let (module, tests) = (format!("{HEADS}{TAILS}"), all_tests());
    for (path, text) in [
        ("coin.py", module.as_str()),
        ("tests/test_coin.py", tests.as_str()),
        ("pyproject.toml", PROJECT),
    ] {
        fs::write(source.join(path), text).unwrap();
    }
    json!({
        "schema_version": 1, "id": "own-1", "statement": "Write tails().",
        "environment": {"base": "host", "setup": ["python3 -m venv /venv", PIP_INSTALL]}, "source": {"path": source},
        "mask": hunk("coin.py", HEADS, TAILS, false), "hidden": ["tests/test_coin.py"],
        "fail_to_pass": FAIL_TO_PASS, "pass_to_pass": PASS_TO_PASS,
        "test_command": ["/venv/bin/pytest", "-q"]
    })
}

/// Writes a dataset for each format. Returns the address of each, with its options.
fn write_datasets(stage: &Stage) -> Vec<String> {
    let (before, whole) = (
        stage.write_file("before.sh", &setup_lines(false)),
        stage.write_file("whole.sh", &setup_lines(true)),
    );
    let venv = stage.write_file("venv.sh", &format!("python3 -m venv /venv\n{PIP_INSTALL}\n"));
    let host = |setup: &Path| format!("#base=host&bin=/venv/bin&setup={}", setup.display());
    let install =
        json!({"install": "true", "test_cmd": "pytest -rA", "log_parser": "parse_log_pytest"});
    let smith = json!({
        "instance_id": "acme__coin.01234567.func__1", "repo": "swesmith/acme__coin.01234567",
        "patch": hunk("coin.py", HEADS, TAILS, false), "FAIL_TO_PASS": FAIL_TO_PASS, "PASS_TO_PASS": PASS_TO_PASS,
        "image_name": "x", "problem_statement": "Broken."
    });
    let script = json!({"image": "x", "eval_script": eval_script(), "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail"});
    let live = json!({"pull_number": "1", "test_cmds": ["pytest -rA"], "log_parser": "pytest"});
    let rows = [
        ("own", proctor_row(&stage.path("source")), String::new()),
        (
            "swe-bench",
            swe_bench_row("pallets__flask-1", json!({"environment_setup_commit": "0123456789"})),
            host(&before),
        ),
        ("swe-bench-5", swe_bench_row("pallets__flask-2", script), host(&before)),
        ("swe-bench-live", swe_bench_row("pallets__flask-3", live), host(&before)),
        ("swe-gym", swe_bench_row("pallets__flask-4", json!({})), host(&before)),
        (
            "swe-rebench",
            swe_bench_row(
                "pallets__flask-5",
                json!({"install_config": install, "image_name": "x"}),
            ),
            host(&before),
        ),
        ("swe-smith", smith, host(&whole)),
        ("featurebench-1", featurebench_row(1), host(&whole)),
        ("featurebench-2", featurebench_row(2), host(&whole)),
        (
            "fea-bench",
            fea_bench_row(&stage.path("clones/acme__coin")),
            format!("{}&repos={}", host(&venv), stage.path("clones").display()),
        ),
    ];
    let file = |(name, row, options): (&str, Value, String)| {
        format!(
            "{}{options}",
            stage.write_file(&format!("{name}.jsonl"), &row.to_string()).display()
        )
    };
    let default = if is_full() { "all" } else { "featurebench-2" };
    let wanted = std::env::var("PROCTOR_ATTACK_SHAPES").unwrap_or_else(|_| default.to_owned());
    let is_wanted = |name: &str| wanted == "all" || wanted.split(',').any(|one| one == name);
    rows.into_iter().filter(|(name, ..)| is_wanted(name)).map(file).collect()
}

#[test]
fn attacks_never_resolve_a_task_with_a_clean_verdict() {
    let stage = Stage::new();
    let datasets = write_datasets(&stage);
    // The grader's own tests cover the whole pack. By default, run only one attack that early
    // versions of the grader missed, and one that needs no module.
    let default = if is_full() { "all" } else { "equal-to-everything,results-preseeded" };
    let pack = std::env::var("PROCTOR_ATTACK").unwrap_or_else(|_| default.to_owned());
    let certificate = stage.path("certificate.json");
    let attack = format!("--attack={pack}");
    let out = stage.path("out");
    let mut args =
        vec!["tasks", "validate", &attack, "--certificate", certificate.to_str().unwrap()];
    args.extend(["--out", out.to_str().unwrap(), "--tasks"]);
    args.extend(datasets.iter().map(String::as_str));
    let said = stage.run(args, 0);
    println!("{}", String::from_utf8_lossy(&said.stdout));
    let made: Value = serde_json::from_slice(&fs::read(&certificate).unwrap()).unwrap();
    let tasks = made["attacks"]["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), datasets.len());
    for task in tasks {
        let attacks = task["attacks"].as_object().unwrap();
        let graded: Vec<_> = attacks.values().filter(|one| one["policies"].is_object()).collect();
        // Attacks that change a module don't apply to tasks that start from an empty repository, so
        // one graded attack is enough.
        assert!(!graded.is_empty(), "{task:#}");
        for (name, found) in attacks {
            let strict = &found["policies"]["strict"];
            let is_beaten = *strict == "beaten" || *strict == "seen";
            assert!(is_beaten || found["not_applicable"].is_string(), "{name}: {task:#}");
        }
        let is_own = task["task"] == "own-1";
        assert!(
            graded.iter().all(|one| one["policies"]["official"].is_string() != is_own),
            "{task:#}"
        );
    }
}
