//! Plans every shipped configuration in an empty folder, with and without the rows of its dataset.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::stage::{Stage, repository_root};

const PATCH: &str = "diff --git a/lib/a.py b/lib/a.py\n--- a/lib/a.py\n+++ b/lib/a.py\n@@ -1,2 +1 @@\n x = 1\n-y = 2\n";
const TEST_PATCH: &str = "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1,2 @@\n x = 1\n+y = 2\n";

/// Returns the names of the run configurations in `configs/`.
fn config_names() -> Vec<String> {
    let is_run =
        |text: &str| text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("tasks"));
    let mut names: Vec<String> = fs::read_dir(repository_root().join("configs"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "toml"))
        .filter(|entry| is_run(&fs::read_to_string(entry.path()).unwrap()))
        .map(|entry| entry.path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn featurebench_row(level: u32) -> Value {
    let settings = json!({"repository": "mwaskom/seaborn", "test_cmd": "pytest -rA", "timeout_run": 300,
        "black_links": ["https://github.com/mwaskom/seaborn/"], "docker_specs": {"run_args": {}}});
    json!({
        "instance_id": format!("mwaskom__seaborn.7001ebe7.test_a.8f0cbfb1.lv{level}"),
        "patch": if level == 1 { PATCH } else { "" }, "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": ["tests/test_a.py"], "PASS_TO_PASS": if level == 1 { vec!["tests/test_b.py"] } else { vec![] },
        "image_name": "featurebench:1", "repo": "mwaskom/seaborn", "base_commit": "7001ebe7",
        "problem_statement": "## Task\nDo it.\n\n## Interface Descriptions\n### 1\n",
        "repo_settings": settings.to_string()
    })
}

fn swe_bench_row() -> Value {
    json!({
        "repo": "django/django", "instance_id": "django__django-11099", "base_commit": "d26b2424",
        "patch": PATCH, "test_patch": TEST_PATCH, "problem_statement": "Do it.", "hints_text": "",
        "created_at": "2019-03-20T03:46:18Z", "version": "3.0", "FAIL_TO_PASS": "[\"test_a (tests.A)\"]",
        "PASS_TO_PASS": "[]", "environment_setup_commit": "419a78300f", "difficulty": "15 min"
    })
}

fn fea_bench_row() -> Value {
    json!({
        "repo": "psf/requests", "instance_id": "psf__requests-1", "base_commit": "d26b2424", "pull_number": 1,
        "patch": PATCH, "test_patch": TEST_PATCH, "problem_statement": "Do it.", "hints_text": "",
        "created_at": "2019-03-20T03:46:18Z", "version": "1.0", "FAIL_TO_PASS": ["tests/test_a.py::test_a"],
        "PASS_TO_PASS": [], "environment_setup_commit": "419a78300f",
        "new_components": {"lib/a.py": [{"type": "function", "name": "y", "signature": "y()", "lines": [1, 2]}]}
    })
}

/// Writes rows to the directory in which users without access to the hub put them.
pub fn write_rows(cache: &Path) {
    let put = |folder: &str, file: &str, rows: &[Value]| {
        let folder = cache.join("datasets").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(folder.join(file), lines).unwrap();
    };
    for split in ["lite", "fast", "full"] {
        put(
            "LiberCoders--FeatureBench",
            &format!("{split}.jsonl"),
            &[featurebench_row(1), featurebench_row(2)],
        );
    }
    put("princeton-nlp--SWE-bench_Verified", "test.jsonl", &[swe_bench_row()]);
    put("microsoft--FEA-Bench", "lite.jsonl", &[fea_bench_row()]);
}

/// Makes a dry run. Returns the exit status and the output.
fn dry_run(stage: &Stage, config: &str, cache: &Path) -> (i32, String) {
    let elsewhere = stage.path("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    let output = stage
        .proctor(["run", config, "--dry-run"])
        .current_dir(elsewhere)
        .env("PROCTOR_CACHE", cache)
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn shipped_configurations_can_be_planned_from_any_folder() {
    let stage = Stage::new();
    let cache: PathBuf = stage.path("cache");
    write_rows(&cache);
    let names = config_names();
    for wanted in [
        "demo",
        "quickstart",
        "steps-ablation",
        "scaffold-comparison",
        "featurebench-lite",
        "featurebench-fast",
        "featurebench-full",
        "feabench-lite",
        "swebench-verified",
        "interface-ablation",
        "shared-repositories",
    ] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} is not shipped");
    }
    for name in &names {
        let file = repository_root().join(format!("configs/{name}.toml"));
        for config in [name.as_str(), file.to_str().unwrap()] {
            let (status, said) = dry_run(&stage, config, &cache);
            assert_eq!(status, 0, "{config}: {said}");
            assert!(said.contains("worst case: $") && said.contains(" x "), "{config}: {said}");
        }
    }
    let (_, said) = dry_run(&stage, "steps-ablation", &cache);
    for part in
        ["tools/steps=50", "tools/steps=100", "tools/steps=500", "power: 1 task x 1 attempt"]
    {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    let (_, said) = dry_run(&stage, "interface-ablation", &cache);
    assert!(
        said.contains("tools/interfaces=false") && said.contains("6 trials: 2 tasks x 3 arms"),
        "{said}"
    );
    let (_, said) = dry_run(&stage, "featurebench-full", &cache);
    // The plan estimates the cost of two tasks, based on the limits of the seven arms and on
    // published token counts.
    assert!(said.contains("14 trials: 2 tasks x 7 arms"), "{said}");
    assert!(said.contains("worst case: $486.00"), "{said}");
    assert!(
        said.contains("expected: $214.39, based on the token counts published by FeatureBench"),
        "{said}"
    );
    let (_, said) = dry_run(&stage, "shared-repositories", &cache);
    assert!(said.contains("21 trials: 3 tasks x 7 arms"), "{said}");
    let (_, said) = dry_run(&stage, "feabench-table2", &cache);
    assert!(said.contains("52 trials: 1 task x 52 arms"), "{said}");
    for table in ["feabench-table3", "feabench-table4"] {
        let (_, said) = dry_run(&stage, table, &cache);
        assert!(said.contains("gpt-4o"), "{said}");
    }
}

/// If arms differ only in their models, replacing the models would make them identical. So `--arms`
/// selects arms before `--model` replaces their models.
#[test]
fn one_arm_of_a_comparison_runs_with_another_model() {
    let stage = Stage::new();
    let cache = stage.path("cache");
    write_rows(&cache);
    let args = [
        "run",
        "feabench-table3",
        "--dry-run",
        "--arms",
        "gpt-4o/*",
        "--model",
        "openai/gpt-5-mini",
    ];
    let output = stage.proctor(args).env("PROCTOR_CACHE", &cache).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("note: running 4 of 8 arms"), "{said}");
    assert!(said.contains("4 trials: 1 task x 4 arms"), "{said}");
    assert!(said.contains("openai/gpt-5-mini/context_tokens=40000/hints=brief"), "{said}");
}

#[test]
fn missing_rows_are_reported_with_their_expected_location() {
    let stage = Stage::new();
    let cache = stage.path("cache");
    for (name, dataset, folder) in [
        (
            "swebench-verified",
            "princeton-nlp/SWE-bench_Verified",
            "princeton-nlp--SWE-bench_Verified",
        ),
        ("featurebench-lite", "LiberCoders/FeatureBench", "LiberCoders--FeatureBench"),
        ("feabench-lite", "microsoft/FEA-Bench", "microsoft--FEA-Bench"),
    ] {
        let (status, said) = dry_run(&stage, name, &cache);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(status, 2, "{said}");
        let folder = cache.join("datasets").join(folder);
        for part in
            [&format!("https://huggingface.co/datasets/{dataset}"), folder.to_str().unwrap()]
        {
            assert!(said.contains(part), "{part} is missing in {said}");
        }
    }
    let (status, said) = dry_run(&stage, "swebench-verifed", &cache);
    assert!(status == 2 && said.contains("did you mean `swebench-verified`?"), "{said}");
}
