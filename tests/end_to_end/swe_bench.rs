//! Tests a row in SWE-bench 5.x format. It is graded under the official and the strict policy, in
//! both kinds of sandboxes, from a run and from predictions in every format that harnesses write.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::{
    single_shot::check_one_response_resolves,
    stage::{Stage, cache_folder, events, find_arm, find_files, has_docker},
    swe_row::{FAIL_TO_PASS, INSTANCE_ID, SweRow, diff},
};

const MODEL: &str = "acme/model";

fn create_row(stage: &Stage) -> SweRow {
    SweRow::create(&stage.path("testbed"), &cache_folder().join("sources"))
}

/// Runs `proctor grade`. Returns the report.
fn grade(stage: &Stage, kind: &str, tasks: &str, predictions: &str, out: &str) -> Value {
    let out = stage.path(out);
    let place = ["--tasks", tasks, "--sandbox", kind, "--out", out.to_str().unwrap()];
    stage.run([["grade", "--predictions", predictions].as_slice(), &place].concat(), 0);
    stage.report(&out)
}

/// Returns the verdicts under both policies for the only trial below a directory.
fn policy_results(out: &Path) -> [Value; 2] {
    let found = find_files(out, "verdict.json");
    assert_eq!(found.len(), 1, "{}", out.display());
    let verdict: Value = serde_json::from_slice(&fs::read(&found[0]).unwrap()).unwrap();
    let official = &verdict["policies"]["official"];
    assert_eq!((&official["name"], &official["version"]), (&json!("swe-bench"), &json!("5.0.2")));
    ["official", "strict"].map(|policy| verdict["policies"][policy]["resolved"].clone())
}

/// Returns the official part of the log of the only trial.
fn official_log(out: &Path) -> String {
    let log = fs::read_to_string(&find_files(out, "log.txt")[0]).unwrap();
    let heading = "===== official: swe-bench 5.0.2 =====";
    log.split_once(heading).unwrap_or_else(|| panic!("no official part:\n{log}")).1.to_owned()
}

/// Runs `gold` and `noop` with `proctor run`, and grades predictions in every format with `proctor
/// grade`.
fn check_run_and_grade(stage: &Stage, kind: &str, tasks: &str, gold: &str) {
    let config = format!(
        "tasks = [{tasks:?}]\n[sandbox]\nkind = \"{kind}\"\n[[arms]]\nname = \"gold\"\n\
         scaffold = \"gold\"\n[[arms]]\nname = \"noop\"\nscaffold = \"noop\"\n"
    );
    let config = stage.write_file("run.toml", &config);
    let out = stage.path("run");
    stage.run(["run", config.to_str().unwrap(), "--out", out.to_str().unwrap()], 0);
    let report = stage.report(&out);
    assert_eq!(find_arm(&report, "gold")["resolved"], 1, "{report:#}");
    assert_eq!(find_arm(&report, "gold")["resolved_clean"], 1, "{report:#}");
    assert_eq!(find_arm(&report, "noop")["resolved"], 0, "{report:#}");

    for (name, resolved) in [("gold", true), ("noop", false)] {
        let report = grade(stage, kind, tasks, name, name);
        assert_eq!(find_arm(&report, name)["resolved_rate"], f64::from(u8::from(resolved)));
        assert_eq!(policy_results(&stage.path(name)), [json!(resolved), json!(resolved)]);
    }

    // Submit a wrong patch in every format. It applies, but one of the three tests still fails.
    let wrong = without_typeutils(gold);
    let answer = |patch: &str| json!({"instance_id": INSTANCE_ID, "model_name_or_path": MODEL, "model_patch": patch});
    let right = answer(gold);
    for (file, text, resolved) in [
        ("preds.jsonl", format!("{right}\n"), true),
        ("list.json", json!([right]).to_string(), true),
        ("dict.json", json!({INSTANCE_ID: right}).to_string(), true),
        // This is the file that mini-swe-agent's `update_preds_file` writes.
        ("preds.json", serde_json::to_string_pretty(&json!({INSTANCE_ID: right})).unwrap(), true),
        ("wrong.jsonl", format!("{}\n", answer(&wrong)), false),
        ("unfit.jsonl", format!("{}\n", answer(&gold.replace("def research", "def found"))), false),
    ] {
        let predictions = stage.write_file(file, &text);
        let out = format!("of-{file}");
        let report = grade(stage, kind, tasks, predictions.to_str().unwrap(), &out);
        assert_eq!(
            find_arm(&report, MODEL)["resolved_rate"],
            f64::from(u8::from(resolved)),
            "{file}"
        );
        assert_eq!(policy_results(&stage.path(&out)), [json!(resolved), json!(resolved)], "{file}");
    }
    let log = official_log(&stage.path("of-wrong.jsonl"));
    assert!(log.contains("FAILED tests/test_typeutils.py::test_sentinel_copy"), "{log}");
    assert!(log.contains("PASSED tests/test_iterutils.py::test_research_custom_enter"), "{log}");
}

/// Returns the gold patch without the changes to one file.
fn without_typeutils(gold: &str) -> String {
    let start = gold.find("diff --git a/boltons/typeutils.py").unwrap();
    let end = gold[start + 1..].find("diff --git ").unwrap() + start + 1;
    [&gold[..start], &gold[end..]].concat()
}

#[test]
fn row_is_graded_officially_on_docker_by_its_own_script() {
    if !has_docker("row_is_graded_officially_on_docker_by_its_own_script") {
        return;
    }
    let stage = Stage::new();
    let mut row = create_row(&stage);
    row.build_image(&stage.path("scratch"));
    let tasks = row.write_tasks(&stage.path("rows.jsonl"));
    check_run_and_grade(&stage, "docker", &tasks, &row.gold_patch());
    // The record identifies the image by its content, because its name may refer to another image
    // later.
    let id = row.image_id();
    let verdict = fs::read(&find_files(&stage.path("of-list.json"), "verdict.json")[0]).unwrap();
    let verdict: Value = serde_json::from_slice(&verdict).unwrap();
    assert_eq!(verdict["environment"]["base"], id.as_str());
    let report = stage.report(&stage.path("run"));
    for trial in report["tasks"].as_array().unwrap() {
        assert_eq!(trial["environment"]["base"], id.as_str(), "{trial}");
    }
    let journals = find_files(&stage.path("run"), "trajectory.jsonl");
    assert_eq!(journals.len(), 2);
    for journal in journals {
        assert_eq!(events(&journal, "setup_finished")[0]["environment"]["base"], id.as_str());
    }
    // The row's own script ran in the row's own environment.
    let log = official_log(&stage.path("gold"));
    for sign in ["+ git -c core.fileMode=false diff", "+ SWEBENCH_TEST_EXIT_CODE=0"] {
        assert!(log.contains(sign), "{sign}:\n{log}");
    }
}

/// In a SWE-smith row, the patch adds a bug to the code in the image, and the whole test suite is
/// run.
#[test]
fn swe_smith_row_is_graded_officially_on_docker() {
    if !has_docker("swe_smith_row_is_graded_officially_on_docker") {
        return;
    }
    let stage = Stage::new();
    let mut row = create_row(&stage);
    row.build_image(&stage.path("scratch"));
    let file = row.repository.join("boltons/iterutils.py");
    let sound = fs::read_to_string(&file).unwrap();
    let broken = sound.replacen("if count == 'repeat':", "if count != 'repeat':", 1);
    assert_ne!(sound, broken);
    fs::write(&file, broken).unwrap();
    let bug = diff(&row.repository, &[]);
    let smith = json!({
        "instance_id": "mahmoud__boltons.7153fecc.lm_modify__1", "patch": bug,
        "repo": "swesmith/mahmoud__boltons.7153fecc", "image_name": row.value["image"],
        "problem_statement": "`backoff` fails.",
        "FAIL_TO_PASS": ["tests/test_iterutils.py::test_backoff_basic"],
        "PASS_TO_PASS": ["tests/test_iterutils.py::TestRemap::test_basic_clone",
                         "tests/test_urlutils.py::test_str_repr"],
    });
    let tasks = stage.write_file("smith.jsonl", &format!("{smith}\n"));
    for (name, resolved) in [("gold", 1), ("noop", 0)] {
        let report = grade(&stage, "docker", tasks.to_str().unwrap(), name, name);
        assert_eq!(find_arm(&report, name)["resolved"], resolved, "{report:#}");
        assert_eq!(find_arm(&report, name)["resolved_clean"], resolved, "{report:#}");
    }
    let log = fs::read_to_string(&find_files(&stage.path("gold"), "log.txt")[0]).unwrap();
    let (_, official) = log.split_once("===== official: swe-smith 0.0.9 =====").unwrap();
    for test in
        ["tests/test_iterutils.py::test_backoff_basic", "tests/test_urlutils.py::test_unicodey"]
    {
        let line = official.lines().find(|line| line.starts_with(test));
        assert!(line.is_some_and(|line| line.contains("PASSED")), "{test}:\n{official}");
    }
}

/// Several datasets use SWE-bench's format with other fields. For each of them, the gold patch must
/// resolve the row, without evidence against it.
#[test]
fn rows_of_other_datasets_are_graded_officially_on_docker() {
    if !has_docker("rows_of_other_datasets_are_graded_officially_on_docker") {
        return;
    }
    let stage = Stage::new();
    let mut row = create_row(&stage);
    row.build_image(&stage.path("scratch"));
    let image = row.value["image"].as_str().unwrap().to_owned();
    let mut plain = row.value.as_object().unwrap().clone();
    for field in ["eval_script", "eval_type", "log_parser", "image"] {
        plain.remove(field);
    }
    let with = |more: Value| {
        let mut row = plain.clone();
        row.extend(more.as_object().unwrap().clone());
        row
    };
    let mut gym = plain.clone();
    gym.remove("environment_setup_commit");
    // The harness of this dataset has parsers only for these repositories. A row from another
    // repository is reported before anything starts.
    let stranger = stage.write_file("stranger.jsonl", &format!("{}\n", json!(gym)));
    let named = format!("{}#image={image}", stranger.display());
    let told =
        stage.run(["grade", "--predictions", "gold", "--sandbox", "docker", "--tasks", &named], 2);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains(INSTANCE_ID) && told.contains("no log parser"), "{told}");
    gym.insert("repo".to_owned(), json!("pallets/flask"));
    let activated = ". /opt/miniconda3/envs/testbed/bin/activate && pytest -rA";
    let shapes = [
        ("swe-gym", gym),
        (
            "swe-rebench",
            with(json!({"docker_image": image, "install_config": {
                "test_cmd": "pytest --no-header -rA --tb=line --color=no", "log_parser": "parse_log_pytest",
            }})),
        ),
        (
            "swe-bench-live",
            with(json!({"docker_image": image, "test_cmds": [activated], "log_parser": "pytest"})),
        ),
    ];
    for (name, row) in shapes {
        let rows = stage.write_file(&format!("{name}.jsonl"), &format!("{}\n", json!(row)));
        let named = match name {
            "swe-gym" => format!("{}#image={image}", rows.display()),
            // In the dataset's own images, pytest is on PATH. In this image, pytest is in a virtual
            // environment.
            "swe-bench-live" => {
                format!("{}#bin=/opt/miniconda3/envs/testbed/bin", rows.display())
            }
            _ => rows.display().to_string(),
        };
        for (patch, resolved) in [("gold", 1), ("noop", 0)] {
            let out = format!("{name}-{patch}");
            let report = grade(&stage, "docker", &named, patch, &out);
            assert_eq!(find_arm(&report, patch)["resolved"], resolved, "{name}: {report:#}");
            assert_eq!(find_arm(&report, patch)["resolved_clean"], resolved, "{name}: {report:#}");
            let verdict = fs::read(&find_files(&stage.path(&out), "verdict.json")[0]).unwrap();
            let verdict: Value = serde_json::from_slice(&verdict).unwrap();
            assert_eq!(verdict["policies"]["official"]["name"], name, "{verdict:#}");
            assert_eq!(verdict["policies"]["strict"]["resolved"], resolved == 1, "{verdict:#}");
        }
    }
}

#[test]
fn row_is_graded_officially_in_native_sandboxes() {
    let stage = Stage::new();
    let mut row = create_row(&stage);
    // In the classic format, a row has neither a script nor a parser.
    for field in ["eval_script", "eval_type", "log_parser"] {
        row.value.as_object_mut().unwrap().remove(field);
    }
    let rows = row.write_tasks(&stage.path("rows.jsonl"));
    let args = ["tasks", "show", INSTANCE_ID, "--json", "--gold", "--tasks"];
    let named = format!("{rows}#image=none");
    let shown = stage.run([args.as_slice(), &[&named]].concat(), 0);
    let mut task: Value = serde_json::from_slice(&shown.stdout).unwrap();
    // Use the programs of the host and a directory with the sources in place of an image.
    let setup = [
        "python3 -m venv /venv",
        "/venv/bin/pip install -q pytest==8.4.2",
        "echo /testbed >$(/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/x.pth",
    ];
    task["environment"] = json!({"base": "host", "setup": setup});
    task["source"] = json!({"path": row.repository});
    task["test_command"] = json!(["/venv/bin/pytest", "-rA"]);
    task["env"] = json!({"PATH": "/venv/bin:/usr/local/bin:/usr/bin:/bin"});
    let tasks = stage.write_file("tasks.jsonl", &format!("{task}\n"));
    check_run_and_grade(&stage, "native", tasks.to_str().unwrap(), &row.gold_patch());
    let log = official_log(&stage.path("gold"));
    assert!(log.contains("+ pytest -rA tests/test_fileutils.py tests/test_iterutils.py"), "{log}");
    check_one_response_resolves(&stage, tasks.to_str().unwrap(), &row.gold_patch());
    check_official_only_without_gold(&stage, task);
}

/// Without a gold patch, there is no baseline that explains a difference between the policies. So
/// if only the official procedure resolves a patch, the result is never clean. The official
/// procedure keeps a `conftest.py` from the patch, and the strict policy removes it.
fn check_official_only_without_gold(stage: &Stage, mut task: Value) {
    task.as_object_mut().unwrap().remove("gold").unwrap();
    let tasks = stage.write_file("without-gold.jsonl", &format!("{task}\n"));
    let passed: String = FAIL_TO_PASS.iter().map(|id| format!("PASSED {id}\\n")).collect();
    let printed = format!("{passed}FAILED tests/test_none.py::test_none\\n");
    let forged = format!(
        "diff --git a/conftest.py b/conftest.py\nnew file mode 100644\n--- /dev/null\n+++ b/conftest.py\n\
         @@ -0,0 +1,2 @@\n+import atexit, os\n+atexit.register(os.write, 1, b'\\n{printed}')\n"
    );
    let forged =
        json!([{"instance_id": INSTANCE_ID, "model_name_or_path": MODEL, "model_patch": forged}]);
    let forged = stage.write_file("forged.json", &forged.to_string());
    let tasks = tasks.to_str().unwrap();
    grade(stage, "native", tasks, forged.to_str().unwrap(), "without-gold");
    assert_eq!(policy_results(&stage.path("without-gold")), [json!(true), json!(false)]);
    let verdict = &find_files(&stage.path("without-gold"), "verdict.json")[0];
    let verdict: Value = serde_json::from_slice(&fs::read(verdict).unwrap()).unwrap();
    assert_eq!(verdict["counted"], "official", "{verdict:#}");
    assert_ne!(verdict["integrity"], "clean", "{verdict:#}");
    let evidence = verdict["evidence"].as_array().unwrap();
    assert!(evidence.iter().any(|one| one["kind"] == "official_only"), "{verdict:#}");
}

/// A custom test runner, like Django's. It uses unittest, so the strict policy cannot start pytest.
const RUNNER: &str = r#"#!/usr/bin/env python3
import sys
import unittest


class Result(unittest.TextTestResult):
    def getDescription(self, test):
        return f"{test._testMethodName} ({type(test).__module__}.{type(test).__qualname__})"


sys.path[:0] = [".", "tests"]
names = [word for word in sys.argv[1:] if not word.startswith("-") and word not in "12"]
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
done = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
sys.exit(not done.wasSuccessful())
"#;
const CASES: &str = "import unittest\n\nimport calc\n\n\nclass CalcTests(unittest.TestCase):\n    \
                     def test_kept(self):\n        self.assertEqual(calc.ONE, 1)\n";

#[test]
fn row_without_pytest_gets_only_the_official_verdict() {
    let stage = Stage::new();
    let source = stage.path("django");
    fs::create_dir_all(source.join("tests/calc_tests")).unwrap();
    fs::write(source.join("calc.py"), "ONE = 1\n").unwrap();
    fs::write(source.join("tests/calc_tests/test_calc.py"), CASES).unwrap();
    let runner = source.join("tests/runtests.py");
    fs::write(&runner, RUNNER).unwrap();
    fs::set_permissions(&runner, fs::Permissions::from_mode(0o755)).unwrap();
    let gold = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1,2 @@\n \
                ONE = 1\n+TWO = 2\n";
    let tests = "diff --git a/tests/calc_tests/test_calc.py b/tests/calc_tests/test_calc.py\n\
                 --- a/tests/calc_tests/test_calc.py\n+++ b/tests/calc_tests/test_calc.py\n\
                 @@ -6,3 +6,6 @@ import calc\n class CalcTests(unittest.TestCase):\n     \
                 def test_kept(self):\n         self.assertEqual(calc.ONE, 1)\n+\n+    \
                 def test_two(self):\n+        self.assertEqual(calc.TWO, 2)\n";
    let row = json!({
        "repo": "django/django", "instance_id": "django__django-1", "base_commit": "0", "version": "5.0",
        "patch": gold, "test_patch": tests, "problem_statement": "Two.", "hints_text": "",
        "created_at": "2024-11-01T00:00:00Z", "environment_setup_commit": "0",
        "FAIL_TO_PASS": "[\"test_two (calc_tests.test_calc.CalcTests)\"]",
        "PASS_TO_PASS": "[\"test_kept (calc_tests.test_calc.CalcTests)\"]",
    });
    let rows = stage.write_file("rows.jsonl", &format!("{row}\n"));
    let named = format!("{}#image=none", rows.display());
    let args = ["tasks", "show", "django__django-1", "--json", "--gold", "--tasks", &named];
    let mut task: Value = serde_json::from_slice(&stage.run(args, 0).stdout).unwrap();
    assert_eq!(task["test_command"][0], "./tests/runtests.py");
    task["environment"] = json!({"base": "host"});
    task["source"] = json!({"path": source});
    task["env"] = json!({});
    let tasks = stage.write_file("tasks.jsonl", &format!("{task}\n"));
    let tasks = tasks.to_str().unwrap();
    let unfit = json!([{"instance_id": "django__django-1", "model_name_or_path": MODEL,
                        "model_patch": gold.replace(" ONE = 1\n", "-ONE = 3\n+ONE = 1\n")}]);
    let unfit = stage.write_file("unfit.json", &unfit.to_string());
    let cases =
        [("gold", "gold", true), ("noop", "noop", false), (unfit.to_str().unwrap(), MODEL, false)];
    for (at, (predictions, name, resolved)) in cases.into_iter().enumerate() {
        let out = format!("out{at}");
        let report = grade(&stage, "native", tasks, predictions, &out);
        assert_eq!(
            find_arm(&report, name)["resolved_rate"],
            f64::from(u8::from(resolved)),
            "{report:#}"
        );
        let verdict = fs::read(&find_files(&stage.path(&out), "verdict.json")[0]).unwrap();
        let verdict: Value = serde_json::from_slice(&verdict).unwrap();
        let policies: Vec<&String> = verdict["policies"].as_object().unwrap().keys().collect();
        assert_eq!(policies, ["official"], "{verdict:#}");
        let kinds: Vec<&str> = verdict["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .map(|evidence| evidence["kind"].as_str().unwrap())
            .collect();
        let rejected = if at == 2 {
            ["strict_not_run", "patch_rejected"].as_slice()
        } else {
            &["strict_not_run"]
        };
        assert_eq!(kinds, rejected, "{verdict:#}");
    }
}
