//! Small rows in the forms that the benchmarks publish.

#![expect(clippy::unwrap_used, reason = "a test helper fails by panic")]

pub mod generate;

use std::fs;

use proctor_datasets::{LoadedDataset, load};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const PATCH: &str = "diff --git a/pkg/a.py b/pkg/a.py\n--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n";
pub const TEST_PATCH: &str = "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n\
    +++ b/tests/test_a.py\n@@ -1 +1 @@\n-1\n+2\ndiff --git a/tests/data.json b/tests/data.json\n\
    --- a/tests/data.json\n+++ b/tests/data.json\n@@ -1 +1 @@\n-1\n+2\n";

/// A row with the twelve fields of SWE-bench's classic form.
pub fn classic_row() -> Value {
    json!({
        "repo": "astropy/astropy", "instance_id": "astropy__astropy-12907", "base_commit": "d16b",
        "patch": PATCH, "test_patch": TEST_PATCH, "problem_statement": "It is wrong.",
        "hints_text": "Look there.", "created_at": "2022-03-03T15:14:54Z", "version": "4.3",
        "FAIL_TO_PASS": "[\"tests/test_a.py::test_x[a b]\"]",
        "PASS_TO_PASS": "[\"tests/test_a.py::test_y\", \"tests/test_a.py::test_y\"]",
        "environment_setup_commit": "298c"
    })
}

pub fn featurebench_row(level: u32) -> Value {
    let settings = json!({
        "repository": "mwaskom/seaborn", "library_name": "seaborn",
        "test_cmd": "pytest -rA --tb=short --color=no", "timeout_run": 300, "timeout_one": 20,
        "use_uv": false, "black_links": ["https://github.com/mwaskom/seaborn/"],
        "docker_specs": {"run_args": {"cuda_visible_num": 1, "number_once": 2, "shm_size": "4g"},
            "custom_docker_args": ["-e HF_HOME=/cache", "-e http_proxy=http://x", "-v /a:/b"]}
    });
    let mut row = json!({
        "instance_id": format!("mwaskom__seaborn.7001ebe7.test_a.8f0cbfb1.lv{level}"),
        "patch": PATCH, "test_patch": TEST_PATCH, "FAIL_TO_PASS": ["tests/test_a.py"],
        "PASS_TO_PASS": ["tests/test_b.py", "tests/test_c.py"],
        "image_name": "LiberCoders/FeatureBench-specs_seaborn-instance_52738fbb",
        "repo": "mwaskom/seaborn", "base_commit": "7001ebe7",
        "problem_statement": "## Task\nDo it.\n\n## Interface Descriptions\n### 1\n",
        "repo_settings": settings.to_string()
    });
    if level == 2 {
        row["patch"] = json!("");
        row["PASS_TO_PASS"] = json!([]);
    }
    row
}

/// Returns the row with some fields set and others removed (null).
pub fn with_fields(mut row: Value, changes: &[(&str, Value)]) -> Value {
    for (name, value) in changes {
        match value {
            Value::Null => {
                row.as_object_mut().unwrap().remove(*name);
            }
            value => row[*name] = value.clone(),
        }
    }
    row
}

/// Loads the rows from a file of JSON lines.
pub fn load_rows(rows: &[Value], options: &str) -> LoadedDataset {
    let dir = TempDir::new().unwrap();
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    fs::write(dir.path().join("rows.jsonl"), lines.join("\n")).unwrap();
    load(&[format!("rows.jsonl{options}")], dir.path()).unwrap()
}

/// Returns the task of a single row.
pub fn load_task(row: Value, options: &str) -> proctor_types::Task {
    let mut loaded = load_rows(&[row], options);
    assert_eq!(loaded.bad_rows, []);
    loaded.tasks.remove(0)
}

/// Returns the error of the only bad row, as `field: what`.
pub fn row_error(row: Value, options: &str) -> String {
    let loaded = load_rows(&[row], options);
    assert_eq!(loaded.tasks, []);
    let bad = &loaded.bad_rows[0];
    format!("{}: {}", bad.field.as_deref().unwrap_or("row"), bad.message)
}
