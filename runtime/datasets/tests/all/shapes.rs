//! Tests that every shape is detected and that its rows become tasks.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::fs;

use pretty_assertions::assert_eq;
use proctor_datasets::load;
use proctor_types::Task;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{
    PATCH, classic_row, featurebench_row, load_rows, load_task, row_error, with_fields,
};

fn details(task: &Task) -> Value {
    json!(task.benchmark.as_ref().unwrap().details)
}

fn benchmark_name(task: &Task) -> &str {
    &task.benchmark.as_ref().unwrap().name
}

#[test]
fn classic_swe_bench_row_becomes_a_task() {
    let task = load_task(classic_row(), "");
    assert_eq!(benchmark_name(&task), "swe-bench");
    assert_eq!(task.benchmark.as_ref().unwrap().version.as_deref(), Some("5.0.2"));
    assert_eq!(task.id.as_str(), "astropy__astropy-12907");
    let image = "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest";
    assert_eq!(task.environment.image.as_deref(), Some(image));
    assert_eq!((task.mask.as_deref(), task.gold.as_deref()), (None, Some(PATCH)));
    assert_eq!(task.fail_to_pass, ["tests/test_a.py::test_x[a b]"]);
    assert_eq!(task.pass_to_pass, ["tests/test_a.py::test_y"]);
    assert_eq!(task.statement, "It is wrong.");
    assert_eq!(task.test_command, ["/opt/miniconda3/envs/testbed/bin/pytest", "-rA"]);
    assert_eq!(task.timeouts.grade_seconds, 1800.0);
    assert!(task.blocked_urls.contains(&"https://github.com/astropy/astropy/**".to_owned()));
    let details = details(&task);
    assert_eq!(details["test_files"], json!(["tests/test_a.py", "tests/data.json"]));
    assert_eq!(details["test_directives"], json!(["tests/test_a.py"]));
    assert_eq!(details["log_parser"], "parse_log_astropy");
    assert_eq!((&details["version"], &details["base_commit"]), (&json!("4.3"), &json!("d16b")));
    assert_eq!(details["match"], "ids");
}

#[test]
fn commands_follow_repository_and_version() {
    let old = load_task(with_fields(classic_row(), &[("version", json!("1.3"))]), "");
    assert_eq!(details(&old)["test_cmd"], "pytest -rA -vv -o console_output_style=classic --tb=no");
    let django =
        with_fields(classic_row(), &[("repo", json!("django/django")), ("version", json!("3.0"))]);
    let django = load_task(django, "");
    let line = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1";
    assert_eq!(details(&django)["test_cmd"], line);
    assert_eq!(details(&django)["test_directives"], json!(["test_a"]));
    assert_eq!(django.test_command[0], "./tests/runtests.py");
}

#[test]
fn swe_bench_5_row_has_image_script_and_parser() {
    let script = "#!/bin/bash\nset -uxo pipefail\n: '>>>>> Start Test Output'\npytest -rA -p no:x tests/test_a.py\n: '>>>>> End Test Output'\n";
    let row = with_fields(
        classic_row(),
        &[
            ("image", json!("ghcr.io/x/y@sha256:AB")),
            ("eval_script", json!(script)),
            ("log_parser", json!("parse_log_pytest_v2")),
            ("eval_type", json!("pass_and_fail")),
            ("FAIL_TO_PASS", json!(["tests/test_a.py::test_x"])),
        ],
    );
    let task = load_task(row, "");
    assert_eq!(task.environment.image.as_deref(), Some("ghcr.io/x/y@sha256:AB"));
    let details = details(&task);
    assert_eq!(details["eval_script"], script);
    assert_eq!(details["test_cmd"], "pytest -rA -p no:x");
    assert_eq!(details["log_parser"], "parse_log_pytest_v2");
    assert_eq!(details["eval_type"], "pass_and_fail");
}

/// A strict run selects its own tests. Tests that remain in the command would run twice.
#[test]
fn strict_command_omits_the_scripts_tests() {
    for line in [
        "pytest -rA tests/test_b.py tests/test_a.py",
        "pytest tests/test_a.py -rA",
        "pytest -rA tests/test_b.py::test_y tests/test_a.py\nrc=$?",
        "pytest -rA tests",
    ] {
        let script = format!(
            "#!/bin/bash\n: '>>>>> Start Test Output'\n{line}\n: '>>>>> End Test Output'\n"
        );
        let task = load_task(with_fields(classic_row(), &[("eval_script", json!(script))]), "");
        assert!(task.test_command[0].ends_with("/bin/pytest"), "{:?}", task.test_command);
        assert_eq!(task.test_command[1..], ["-rA"], "{line}");
        assert_eq!(details(&task)["eval_script"], script);
    }
}

#[test]
fn featurebench_level_1_is_masked_and_hides_its_test() {
    let task = load_task(featurebench_row(1), "");
    assert_eq!((benchmark_name(&task), task.level), ("featurebench", Some(1)));
    assert_eq!((task.mask.as_deref(), task.gold.as_deref()), (Some(PATCH), None));
    assert_eq!(task.hidden, ["tests/test_a.py"]);
    assert_eq!(task.test_patch, None);
    assert_eq!(task.fail_to_pass, ["tests/test_a.py"]);
    assert_eq!(task.pass_to_pass, ["tests/test_b.py", "tests/test_c.py"]);
    let image = "libercoders/featurebench-specs_seaborn-instance_52738fbb";
    assert_eq!(task.environment.image.as_deref(), Some(image));
    assert_eq!(task.timeouts.grade_seconds, 900.0);
    assert_eq!(task.env["HF_HOME"], "/cache");
    assert!(!task.env.contains_key("http_proxy"));
    assert!(task.blocked_urls.contains(&"https://github.com/mwaskom/seaborn/**".to_owned()));
    let details = details(&task);
    for (key, value) in [
        ("match", json!("files")),
        ("test_cmd", json!("pytest -rA --tb=short --color=no")),
        ("timeout_run", json!(300)),
        ("timeout_one", json!(20)),
        ("gpus", json!(2)),
        ("shm_size", json!("4g")),
        ("log_parser", json!("default")),
        ("test_patch_deletes", json!(true)),
        ("test_directives", json!(["tests/test_a.py", "tests/test_b.py", "tests/test_c.py"])),
    ] {
        assert_eq!(details[key], value, "{key}");
    }
}

/// The dataset option was replaced by a factor, because the arms of a run may differ in its value.
#[test]
fn replaced_option_is_rejected_with_the_new_key() {
    for (option, key) in
        [("interfaces=false", "interfaces = false"), ("white=true", "tests = true")]
    {
        let address = format!("rows.jsonl#{option}");
        let error =
            proctor_datasets::load(&[address], std::path::Path::new(".")).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}` below [statement]")), "{error}");
    }
}

#[test]
fn featurebench_level_2_starts_from_an_empty_directory() {
    let task = load_task(featurebench_row(2), "");
    assert_eq!((task.level, &task.mask, &task.gold), (Some(2), &None, &None));
    let start = task.from_scratch.as_ref().unwrap();
    assert_eq!(start.files["README.md"], "put all codes in this folder\n");
    assert_eq!(start.install, "pip install .");
    assert!(task.test_patch.is_some() && task.hidden.is_empty());
    assert!(task.statement.starts_with("## Task\nDo it.\n\n## Interface"), "{}", task.statement);
    assert_eq!(details(&task)["test_patch_deletes"], false);
    let own = with_fields(featurebench_row(2), &[("gold", json!(PATCH))]);
    assert_eq!(crate::common::load_task(own, "").gold.as_deref(), Some(PATCH));
}

#[test]
fn featurebench_removes_copies_from_its_images() {
    assert_eq!(load_task(featurebench_row(1), "").environment.setup, ["rm -rf /root/my_repo"]);
    let mlflow =
        load_task(with_fields(featurebench_row(1), &[("repo", json!("mlflow/mlflow"))]), "");
    assert!(mlflow.environment.setup[1].contains("/testbed/libs/skinny/mlflow"));
    let own = load_task(featurebench_row(1), "#image=mine:1");
    assert!(own.environment.setup.is_empty(), "a custom image must not be modified");
}

#[test]
fn featurebench_fills_missing_settings() {
    let bare = with_fields(
        featurebench_row(1),
        &[("repo_settings", json!("{}")), ("repo", json!("pydantic/pydantic"))],
    );
    let task = load_task(bare, "");
    assert_eq!(details(&task)["test_cmd"], "pytest -rA -v --color=no");
    assert_eq!(details(&task)["log_parser"], "pydantic");
    assert_eq!(task.timeouts.grade_seconds, 1800.0);
    for (change, said) in [
        (("repo_settings", json!("{oops")), "repo_settings: is not JSON"),
        (("instance_id", json!("a.lv3")), "instance_id: does not end in"),
        (("patch", json!("")), "patch: is missing, but level 1"),
        (
            ("FAIL_TO_PASS", json!("tests/test_a.py")),
            "FAIL_TO_PASS: is text that does not contain a list",
        ),
    ] {
        let found = row_error(with_fields(featurebench_row(1), &[change]), "");
        assert!(found.starts_with(said), "{found}");
    }
}

#[test]
fn fail_to_pass_accepts_a_python_list_literal() {
    let row = with_fields(featurebench_row(1), &[("FAIL_TO_PASS", json!("['tests/test_a.py']"))]);
    assert_eq!(load_task(row, "").fail_to_pass, ["tests/test_a.py"]);
}

#[test]
fn swe_bench_live_keeps_commands_and_ignores_parser_code() {
    let row = with_fields(
        classic_row(),
        &[
            ("environment_setup_commit", Value::Null),
            ("pull_number", json!("12907")),
            ("test_cmds", json!(["pip list", "pytest -rA"])),
            ("log_parser", json!("def parser(log):\n    return {}\n")),
            ("rebuild_cmds", json!(["make"])),
        ],
    );
    let task = load_task(row, "");
    assert_eq!(benchmark_name(&task), "swe-bench-live");
    let image = "starryzhang/sweb.eval.x86_64.astropy_1776_astropy-12907:latest";
    assert_eq!(task.environment.image.as_deref(), Some(image));
    assert_eq!(task.test_command, ["pytest", "-rA"]);
    let details = details(&task);
    assert_eq!(details["test_cmd"], json!(["pip list", "pytest -rA"]));
    assert_eq!(details["rebuild_cmds"], json!(["make"]));
    assert!(details["log_parser_code"].as_str().unwrap().starts_with("def parser"));
    assert_eq!(details.get("log_parser"), None);
}

#[test]
fn swe_gym_is_detected_by_its_missing_commit() {
    let row = with_fields(
        classic_row(),
        &[
            ("environment_setup_commit", Value::Null),
            ("FAIL_TO_PASS", json!(["tests/test_a.py::test_x"])),
        ],
    );
    let task = load_task(row, "");
    assert_eq!(benchmark_name(&task), "swe-gym");
    let image = "xingyaoww/sweb.eval.x86_64.astropy_s_astropy-12907:latest";
    assert_eq!(task.environment.image.as_deref(), Some(image));
}

#[test]
fn swe_rebench_install_config_is_an_object_or_text() {
    let install = json!({"install": "pip install -e .", "test_cmd": ["pytest -q --x"], "log_parser": "parse_log_pytest_v2"});
    for install in [install.clone(), json!(install.to_string())] {
        let row = with_fields(
            classic_row(),
            &[("install_config", install), ("image_name", json!("swerebench/a:b"))],
        );
        let task = load_task(row, "");
        assert_eq!(benchmark_name(&task), "swe-rebench");
        assert_eq!(task.environment.image.as_deref(), Some("swerebench/a:b"));
        let details = details(&task);
        assert_eq!(details["install"], "pip install -e .");
        assert_eq!(details["log_parser"], "parse_log_pytest_v2");
        assert_eq!(task.test_command[1..], ["-q", "--x"]);
    }
}

#[test]
fn swe_smith_patch_is_the_bug() {
    let row = json!({
        "instance_id": "a__b.12345678.func_x__1", "repo": "swesmith/a__b.12345678", "patch": PATCH,
        "FAIL_TO_PASS": ["tests/test_a.py::test_x"], "PASS_TO_PASS": ["tests/test_b.py::test_y"],
        "image_name": "jyangballin/swesmith.x86_64.a_1776_b.12345678", "problem_statement": "Broken."
    });
    let task = load_task(row, "");
    assert_eq!(benchmark_name(&task), "swe-smith");
    assert_eq!((task.mask.as_deref(), task.gold.as_deref()), (Some(PATCH), None));
    assert_eq!(task.hidden, ["tests/test_a.py"]);
    let details = details(&task);
    assert_eq!(details["test_directives"], json!([]), "the whole suite");
}

#[test]
fn swe_smith_profile_may_list_test_files() {
    let row = json!({
        "instance_id": "dask__dask.5f61e423.x__1", "repo": "swesmith/dask__dask.5f61e423",
        "patch": PATCH, "FAIL_TO_PASS": ["b.py::test_x", "a.py::test_x"],
        "PASS_TO_PASS": ["b.py::test_y", "a.py::test_z"], "image_name": "i", "problem_statement": "Broken."
    });
    let details = details(&load_task(row, ""));
    assert_eq!(details["test_directives"], json!(["a.py", "b.py", "a.py", "b.py"]));
}

#[test]
fn fea_bench_standard_and_medium_give_equal_tasks() {
    let component = json!([
        {"type": "function", "name": "f", "lines": [1, 2], "signature": "def f():", "doc": "Does f."},
        {"type": "class", "name": "C", "lines": [4, 9], "signature": "class C:", "doc": ""}
    ]);
    let base = with_fields(
        classic_row(),
        &[
            ("instance_id", json!("acme__tool-7")),
            ("repo", json!("acme/tool")),
            ("version", Value::Null),
            ("base_commit", json!("0123456789012345678901234567890123456789")),
            ("pull_number", json!(7)),
            ("problem_statement", Value::Null),
            ("hints_text", Value::Null),
            ("new_components", json!({"pkg/a.py": component})),
        ],
    );
    let info = json!({
        "first_commit_time": 9.0, "pr_title": "Add f", "pr_body": "Body", "pr_timeline": [],
        "issues": {"1": {"issue_title": "I", "issue_body": "want", "issue_timeline": []}}
    });
    let medium = load_task(with_fields(base.clone(), &[("problem_info", info)]), "");
    let oracle = load_task(
        with_fields(
            base.clone(),
            &[
                ("pull_request_text", json!("<request>\nAdd f\nBody\n----------\n</request>")),
                ("new_components", json!([{"file": "pkg/a.py", "components": component}])),
                ("patch-detailed", json!("x".repeat(9000))),
            ],
        ),
        "",
    );
    assert_eq!(benchmark_name(&medium), "fea-bench");
    assert_eq!(medium.statement, oracle.statement);
    assert!(medium.statement.contains("(definition of f:)\ndef f():\n\"\"\"Does f.\"\"\"\n"));
    let standard =
        load_task(with_fields(base.clone(), &[("problem_statement", json!(medium.statement))]), "");
    assert_eq!(standard.statement, medium.statement);
    assert_eq!(details(&standard)["functions_added"], 1);
    assert_eq!(details(&standard)["classes_added"], 1);
    assert_eq!(details(&oracle).get("row_left_out"), None, "prebuilt prompts are dropped");
    let test_cmd = "pytest --no-header -rA --tb=no -p no:cacheprovider";
    assert_eq!(details(&standard)["test_cmd"], test_cmd);
    assert_eq!(standard.environment.image.as_deref(), Some("sweb.eval.x86_64.acme__tool-7:latest"));
    let hosted = load_task(with_fields(base, &[("problem_statement", json!("x"))]), "#base=host");
    assert_eq!(hosted.environment.base.as_deref(), Some("host"));
    assert!(hosted.source.is_some() && !hosted.environment.setup.is_empty());
    assert_eq!(hosted.test_command[0], "/venv/bin/pytest");
}

#[test]
fn row_with_only_ids_explains_how_to_complete_it() {
    let row = json!({
        "instance_id": "acme__tool-7", "pull_number": 7, "repo": "acme/tool", "version": null,
        "base_commit": "abc", "environment_setup_commit": "abc",
        "FAIL_TO_PASS": ["tests/test_a.py::test_x"], "PASS_TO_PASS": []
    });
    let found = row_error(row, "");
    assert!(found.starts_with("patch: is missing") && found.contains("#repos="), "{found}");
}

#[test]
fn hints_are_included_only_on_request() {
    assert_eq!(load_task(classic_row(), "").statement, "It is wrong.");
    let hinted = load_task(classic_row(), "#hints=true");
    assert_eq!(hinted.statement, "It is wrong.\n\n## Hints\n\nLook there.\n");
}

#[test]
fn unknown_fields_are_kept_if_short_and_named_if_long() {
    let row = with_fields(
        classic_row(),
        &[
            ("difficulty", json!("<15 min")),
            ("extra", json!([1, 2])),
            ("long", json!("x".repeat(5000))),
        ],
    );
    let details = details(&load_task(row, ""));
    assert_eq!(details["difficulty"], "<15 min");
    assert_eq!(details["row"], json!({"extra": [1, 2]}));
    assert_eq!(details["row_left_out"], json!(["long"]));
}

#[test]
fn row_errors_name_the_original_field() {
    for (change, said) in [
        (("FAIL_TO_PASS", json!("[a, b]")), "FAIL_TO_PASS: is not JSON or a Python literal"),
        (("FAIL_TO_PASS", json!([])), "FAIL_TO_PASS: is empty"),
        (("PASS_TO_PASS", json!([3])), "PASS_TO_PASS: element 1 is a number"),
        (("patch", json!(7)), "patch: is a number, not text"),
        (("patch", json!("")), "patch: is empty"),
        (("test_patch", json!("\n")), "test_patch: is empty"),
        (("FAIL_TO_PASS", json!({"a": 1})), "FAIL_TO_PASS: is an object, but its `a` is a number"),
        (("problem_statement", json!("")), "problem_statement: is empty"),
        (("repo_settings", json!("{}")), "patch: "),
    ] {
        let found = row_error(with_fields(classic_row(), std::slice::from_ref(&change)), "");
        let odd = change.0 == "repo_settings";
        assert!(odd || found.starts_with(said), "{found}");
    }
    let mut null = classic_row();
    null["FAIL_TO_PASS"] = Value::Null;
    let null = row_error(null, "");
    assert!(null.starts_with("FAIL_TO_PASS: is null"), "{null}");
    let lacking = row_error(with_fields(classic_row(), &[("test_patch", Value::Null)]), "");
    assert!(lacking.contains("but the row lacks `test_patch`"), "{lacking}");
}

#[test]
fn row_that_matches_two_shapes_is_rejected() {
    let marks = [
        ("featurebench", "repo_settings", json!("{}")),
        ("swe-rebench", "install_config", json!({})),
        ("swe-bench-live", "test_cmds", json!(["pytest"])),
        ("fea-bench", "new_components", json!([])),
        ("swe-bench", "eval_script", json!("pytest")),
    ];
    for (at, (one, first, value)) in marks.iter().enumerate() {
        for (two, second, other) in &marks[at + 1..] {
            let changes = [(*first, value.clone()), (*second, other.clone())];
            let found = row_error(with_fields(classic_row(), &changes), "");
            for said in [one, first, two, second, &"#shape="] {
                assert!(found.contains(said), "{first} {second}: {found}");
            }
        }
    }
    let both = [("test_cmds", json!(["pytest"])), ("install_config", json!({}))];
    let said = load_task(with_fields(classic_row(), &both), "#shape=swe-bench-live");
    assert_eq!(benchmark_name(&said), "swe-bench-live");
    // A table that combines several benchmarks has every column, with null where a row has no value.
    let null = with_fields(
        classic_row(),
        &[("test_cmds", json!(["pytest"])), ("new_components", Value::Null)],
    );
    assert_eq!(benchmark_name(&load_task(null, "")), "swe-bench-live");
}

#[test]
fn custom_shape_is_a_single_file() {
    let dir = TempDir::new().unwrap();
    let shape = r#"
        name = "swe-bench-pro"
        workdir = "/app"
        [fields]
        image = ["dockerhub_tag"]
        statement = ["problem_statement"]
        test_command = []
        [details]
        language = ["repo_language"]
        before = ["before_repo_set_cmd"]
        [tests]
        bin = ""
        command = "bash run_script.sh"
        parser = "parser.py"
        seconds = 3600.0
    "#;
    fs::write(dir.path().join("pro.toml"), shape).unwrap();
    let row = with_fields(
        classic_row(),
        &[
            ("FAIL_TO_PASS", Value::Null),
            ("PASS_TO_PASS", Value::Null),
            ("fail_to_pass", json!("['test/a.py | x', \"it's\"]")),
            ("pass_to_pass", json!("[]")),
            ("dockerhub_tag", json!("nodebb.nodebb-1")),
            ("repo_language", json!("js")),
        ],
    );
    fs::write(dir.path().join("rows.jsonl"), row.to_string()).unwrap();
    let pattern = "rows.jsonl#shape=pro.toml&image=jefzda/sweap-images:{image}";
    let loaded = load(&[pattern.into()], dir.path()).unwrap();
    assert_eq!(loaded.bad_rows, []);
    let task = &loaded.tasks[0];
    assert_eq!(benchmark_name(task), "swe-bench-pro");
    assert_eq!(task.fail_to_pass, ["test/a.py | x", "it's"]);
    assert_eq!(task.environment.image.as_deref(), Some("jefzda/sweap-images:nodebb.nodebb-1"));
    assert_eq!((task.workdir.as_str(), &details(task)["language"]), ("/app", &json!("js")));
}

#[test]
fn duplicate_row_error_names_both_locations() {
    let loaded = load_rows(&[classic_row(), classic_row()], "");
    assert_eq!(loaded.tasks.len(), 1);
    assert!(loaded.bad_rows[0].to_string().contains("rows.jsonl:1"), "{}", loaded.bad_rows[0]);
    assert_eq!(loaded.bad_rows[0].field.as_deref(), Some("instance_id"));
}

#[test]
fn rows_with_other_id_fields_are_detected() {
    let dir = tempfile::tempdir().unwrap();
    let shape = r#"
        name = "swe-bench"
        [detect]
        all = ["case"]
        [fields]
        id = ["case"]
        [tests]
        bin = "/opt/bin"
        command = "pytest -rA"
        parser = "parse_log_pytest"
        seconds = 1800.0
    "#;
    fs::write(dir.path().join("quarry.toml"), shape).unwrap();
    let row = |case: Value| {
        with_fields(
            classic_row(),
            &[("instance_id", Value::Null), ("case", case), ("image", json!("a/b:1"))],
        )
    };
    let rows = [
        row(json!("a__b-1")),
        row(json!("a__b-1")),
        with_fields(row(json!("a__b-2")), &[("patch", json!(3))]),
    ];
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(dir.path().join("rows.jsonl"), lines.join("\n")).unwrap();
    let loaded = load(&["rows.jsonl#shape=quarry.toml".into()], dir.path()).unwrap();
    assert_eq!(loaded.tasks.len(), 1, "{:?}", loaded.bad_rows);
    assert_eq!(loaded.bad_rows[0].field.as_deref(), Some("case"));
    assert!(
        loaded.bad_rows.iter().any(|bad| bad.to_string().contains("a__b-2")),
        "{:?}",
        loaded.bad_rows
    );
    fs::write(dir.path().join("quarry.toml"), shape.replace("id = ", "di = ")).unwrap();
    let refused = load(&["rows.jsonl#shape=quarry.toml".into()], dir.path()).unwrap_err();
    assert!(refused.to_string().contains("fields.di: no such field; fields: "), "{refused}");
}

#[test]
fn row_without_a_shape_is_rejected_with_the_missing_field() {
    let mut nameless = classic_row();
    nameless.as_object_mut().unwrap().remove("instance_id");
    let loaded = load_rows(&[nameless], "");
    let said = loaded.bad_rows[0].to_string();
    assert!(said.contains("instance_id") && !said.contains("schema_version"), "{said}");
    let address = with_fields(classic_row(), &[("repo", json!("https://github.com/a/b"))]);
    let said = load_rows(&[address], "").bad_rows[0].to_string();
    assert!(said.contains("`repo`") && said.contains("OWNER/NAME"), "{said}");
}

#[test]
fn row_with_an_unknown_parser_is_rejected() {
    let row = |name: &str| with_fields(classic_row(), &[("log_parser", json!(name))]);
    let said = row_error(row("parse_log_gotset"), "");
    assert!(said.starts_with("log_parser: ") && said.contains("\"parse_log_gotset\""), "{said}");
    assert!(said.contains("did you mean `parse_log_gotest`?"), "{said}");
    let said = row_error(row("nobody's"), "");
    assert!(said.contains("swe-bench 5.0.2 has no parser") && said.len() < 300, "{said}");
    // The parser is known, but it does not support this instance.
    let said = row_error(row("parse_log_jekyll"), "");
    assert!(said.contains("astropy__astropy-12907"), "{said}");
    assert_eq!(details(&load_task(row("parse_log_gotest"), ""))["log_parser"], "parse_log_gotest");
}

#[test]
fn row_of_another_language_needs_a_test_command() {
    let go = [("repo", json!("gin-gonic/gin"))];
    let said = row_error(with_fields(classic_row(), &go), "");
    assert!(
        said.starts_with("eval_script: is missing") && said.contains("gin-gonic/gin"),
        "{said}"
    );
    let script =
        "set -e\n: '>>>>> Start Test Output'\ngo test -v ./...\n: '>>>>> End Test Output'\n";
    let row = with_fields(classic_row(), &[go[0].clone(), ("eval_script", json!(script))]);
    let task = load_task(row, "");
    assert_eq!(task.test_command, ["go", "test", "-v", "./..."]);
    assert_eq!(details(&task)["log_parser"], "parse_log_gotest");
}
