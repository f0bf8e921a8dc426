//! Loads valid and invalid rows through the public interface.

#![expect(clippy::unwrap_used, reason = "a test helper fails by panic")]

use std::fs;

use pretty_assertions::assert_eq;
use proctor_datasets::{DatasetError, LoadedDataset, load};
use serde_json::{Value, json};
use tempfile::TempDir;

fn native_row() -> Value {
    json!({
        "schema_version": 1, "id": "one", "statement": "Do it.",
        "environment": {"base": "host"}, "source": {"path": "src"},
        "mask": "diff --git a/x b/x\n",
        "fail_to_pass": ["tests/test_a.py::test_b[x::y]"],
        "test_command": ["python3", "-m", "pytest"]
    })
}

fn row_with(key: &str, value: Value) -> Value {
    let mut row = native_row();
    row[key] = value;
    row
}

fn load_rows(rows: &[String]) -> LoadedDataset {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("t.jsonl"), rows.join("\n")).unwrap();
    load(&["t.jsonl".into()], dir.path()).unwrap()
}

fn row_error(row: &Value) -> (Option<String>, String) {
    let loaded = load_rows(&[row.to_string()]);
    assert_eq!(loaded.tasks.len(), 0);
    let bad = loaded.bad_rows.first().unwrap();
    (bad.field.clone(), bad.message.clone())
}

#[test]
fn bad_row_is_reported_and_others_load() {
    let mut typo = row_with("id", json!("two"));
    typo["fail_to_pas"] = json!([]);
    let rows = [native_row().to_string(), typo.to_string(), "{oops".into(), String::new()];
    let loaded = load_rows(&[&rows[..], &[row_with("id", json!("three")).to_string()]].concat());
    let ids: Vec<_> = loaded.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["one", "three"]);
    assert_eq!(loaded.origins[&loaded.tasks[1].id].line, 5);
    assert_eq!(loaded.bad_rows.len(), 2);
    assert_eq!(loaded.bad_rows[0].line, Some(2));
    assert_eq!(loaded.bad_rows[0].id.as_deref(), Some("two"));
    assert_eq!(loaded.bad_rows[0].field.as_deref(), Some("fail_to_pas"));
    assert!(loaded.bad_rows[0].message.contains("did you mean `fail_to_pass`?"));
    assert_eq!(loaded.bad_rows[1].line, Some(3));
}

#[test]
fn nested_key_errors_name_the_path() {
    let (field, what) = row_error(&row_with("environment", json!({"base": "host", "setpu": []})));
    assert_eq!(field.as_deref(), Some("environment.setpu"));
    assert!(what.contains("`setup`"), "{what}");
    let (field, what) = row_error(&row_with("source", json!({"pypi": "a", "version": "1"})));
    assert_eq!(
        (field.as_deref(), what.as_str()),
        (Some("source.sha256"), "is required with `pypi`")
    );
    let (field, _) = row_error(&row_with("source", json!({"pypi": "a", "git": "b"})));
    assert_eq!(field.as_deref(), Some("source"));
    let (_, what) = row_error(&row_with("source", json!({"archiv": "a.tar.gz"})));
    assert!(what.contains("`archive`"), "{what}");
    let (field, _) = row_error(&row_with("timeouts", json!({"grade_seconds": "soon"})));
    assert_eq!(field.as_deref(), Some("timeouts.grade_seconds"));
}

#[test]
fn task_rules_are_enforced() {
    let cases = [
        ("environment", json!({})),
        ("environment", json!({"base": "host", "image": "x"})),
        ("workdir", json!("testbed")),
        ("workdir", json!("/a/../b")),
        ("hidden", json!(["../secret"])),
        ("hidden", json!(["/etc"])),
        ("fail_to_pass", json!([])),
        ("fail_to_pass", json!(["tests/test_a.py"])),
        ("fail_to_pass", json!(["../t.py::a"])),
        ("pass_to_pass", json!(["tests/test_a.py::test_b[x::y]"])),
        ("test_command", json!([])),
        ("statement", json!("  ")),
        ("mask", json!("")),
        ("schema_version", json!(2)),
    ];
    for (key, value) in cases {
        let (field, what) = row_error(&row_with(key, value.clone()));
        assert_eq!(field.as_deref(), Some(key), "{key} = {value}: {what}");
    }
}

#[test]
fn cheats_need_unique_names_and_effective_patches() {
    let cheat = |name: &str, patch: &str| json!({"name": name, "patch": patch});
    let patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
    assert!(
        load_rows(&[row_with("cheats", json!([cheat("a", patch)])).to_string()])
            .bad_rows
            .is_empty()
    );
    for (cheats, field, said) in [
        (json!([cheat("a", patch), cheat("a", patch)]), "cheats[1].name", "duplicate \"a\""),
        (json!([cheat(" ", patch)]), "cheats[0].name", "is empty"),
        (json!([cheat("a", "")]), "cheats[0].patch", "changes no file"),
        (json!([cheat("a", "+ x = 1\n")]), "cheats[0].patch", "no files found"),
    ] {
        let (at, what) = row_error(&row_with("cheats", cheats));
        assert_eq!(at.as_deref(), Some(field), "{what}");
        assert!(what.contains(said), "{field}: {what}");
    }
}

#[test]
fn missing_key_error_names_the_key() {
    let mut row = native_row();
    row.as_object_mut().unwrap().remove("statement");
    assert_eq!(row_error(&row), (Some("statement".into()), "is missing".into()));
}

#[test]
fn duplicate_id_error_names_the_first_location() {
    let loaded = load_rows(&[native_row().to_string(), native_row().to_string()]);
    assert_eq!(loaded.tasks.len(), 1);
    assert!(loaded.bad_rows[0].message.contains("t.jsonl:1"), "{}", loaded.bad_rows[0]);
}

#[test]
fn toml_file_has_one_task_or_one_recipe() {
    let dir = TempDir::new().unwrap();
    let task: toml::Value = serde_json::from_value(native_row()).unwrap();
    fs::write(dir.path().join("a.toml"), toml::to_string(&task).unwrap()).unwrap();
    let recipe = |extra: &str| {
        format!(
            "[recipe]\nschema_version = 1\nid = \"r\"\ntitle = \"R\"\npackage = \"p\"\n\
             version = \"1\"\nsha256 = \"{}\"\nrequires_python = \">=3.9\"\n\
             dependencies = [\"pytest==8.4.2\"]\ntests = [\"tests/test_*.py\"]\n{extra}\n\
             [recipe.carve]\n\"p/a.py\" = [\"f\", \"C.m\"]\n",
            "0".repeat(64)
        )
    };
    fs::write(dir.path().join("b.toml"), recipe("")).unwrap();
    fs::write(dir.path().join("c.toml"), recipe("hiden = []")).unwrap();
    fs::write(dir.path().join("d.toml"), "[recipe\n").unwrap();
    let loaded = load(&["*.toml".into(), "a.toml".into()], dir.path()).unwrap();
    assert_eq!(loaded.tasks.len(), 1);
    assert_eq!(loaded.recipes.len(), 1);
    assert_eq!(loaded.recipes[0].recipe.carve["p/a.py"], ["f", "C.m"]);
    assert_eq!(loaded.bad_rows.len(), 2);
    assert_eq!(loaded.bad_rows[0].field.as_deref(), Some("recipe.hiden"));
    assert_eq!(loaded.bad_rows[1].line, Some(1));
}

#[test]
fn pattern_without_matches_is_an_error() {
    let dir = TempDir::new().unwrap();
    for pattern in ["absent.jsonl", "*.jsonl"] {
        let error = load(&[pattern.into()], dir.path()).unwrap_err();
        assert!(matches!(error, DatasetError::NoMatch { .. }), "{error}");
    }
}

#[test]
fn test_results_allow_ids_of_other_runners_and_are_checked() {
    let row = |results: Value, ids: Value| {
        let mut row = row_with("test_results", results);
        row["fail_to_pass"] = ids;
        row
    };
    let junit = json!({"format": "junit", "path": "target/surefire-reports/TEST-*.xml"});
    let loaded = load_rows(&[row(junit, json!(["com.A::adds", "adds 1 > 2"])).to_string()]);
    assert_eq!(loaded.bad_rows, []);
    for (results, ids, expected) in [
        (json!({"format": "nunit"}), json!(["a"]), "test_results.format"),
        (json!({"format": "tap", "file": "x"}), json!(["a"]), "test_results.file"),
        (json!({"format": "tap", "path": "../x"}), json!(["a"]), "test_results.path"),
        (json!({"format": "tap", "path": "/"}), json!(["a"]), "test_results.path"),
        (json!({"format": "tap", "path": "reports/"}), json!(["a"]), "test_results.path"),
        (json!({"format": "tap", "path": "*/x.tap"}), json!(["a"]), "test_results.path"),
        (json!({"format": "tap"}), json!([" "]), "fail_to_pass"),
        (json!({"format": "tap"}), json!(["a", "a"]), "fail_to_pass"),
        // pytest reports to Proctor directly, so `path` is rejected and ids must be node ids.
        (json!({"format": "pytest", "path": "x.xml"}), json!(["t.py::a"]), "test_results.path"),
        (json!({"format": "pytest"}), json!(["adds"]), "fail_to_pass"),
    ] {
        let (field, what) = row_error(&row(results.clone(), ids));
        assert_eq!(field.as_deref(), Some(expected), "{results}: {what}");
    }
}
