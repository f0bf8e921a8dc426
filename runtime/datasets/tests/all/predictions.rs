//! Reads predictions in the formats of other harnesses.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::fs;

use pretty_assertions::assert_eq;
use proctor_datasets::{Predictions, read_predictions};
use serde_json::json;

fn predictions_from_text(name: &str, text: &str) -> Predictions {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(name);
    fs::write(&file, text).unwrap();
    read_predictions(&file).unwrap()
}

#[test]
fn predictions_as_list_lines_or_object_are_equal() {
    let row = json!({"instance_id": "a", "model_name_or_path": "m", "model_patch": "x"});
    let keyed = json!({"a": {"model_name_or_path": "m", "model_patch": "x"}});
    let preds = json!({"a": row.clone()});
    for (name, text) in [
        ("p.jsonl", row.to_string()),
        ("p.json", format!("[{row}]")),
        ("p.json", keyed.to_string()),
        ("p.jsonl", keyed.to_string()),
        ("p.jsonl", serde_json::to_string_pretty(&preds).unwrap()),
        ("preds.json", serde_json::to_string_pretty(&preds).unwrap()),
        ("odd.txt", format!("{row}\n\n")),
    ] {
        let read = predictions_from_text(name, &text);
        assert_eq!(read.bad_rows, []);
        let made = &read.by_model["m"][&("a".to_owned(), 1)];
        assert_eq!((made.patch.as_str(), &made.failure), ("x", &None), "{text}");
    }
}

#[test]
fn non_text_id_is_reported_with_its_type() {
    let row = json!({"instance_id": 7, "model_name_or_path": "m", "model_patch": "x"});
    let said = predictions_from_text("p.jsonl", &row.to_string()).bad_rows[0].to_string();
    assert!(said.contains("field `instance_id`: is a number, not text"), "{said}");
}

#[test]
fn featurebench_output_has_attempts_and_failures() {
    let row = |attempt: u32, success: bool| {
        json!({
            "instance_id": "a.lv1", "n_attempt": attempt, "model_patch": "x", "agent": "codex",
            "model": "gpt", "task_metadata": {"patch": "the gold", "instance_id": "a.lv1"},
            "success": success, "error": if success { None } else { Some("out of time") }
        })
    };
    let inner = json!({"instance_id": "b.lv1", "agent": "codex", "model": "gpt",
        "test_result": {"git_patch": "y"}});
    let text = format!("{}\n{}\n{inner}\n", row(1, true), row(2, false));
    let read = predictions_from_text("output.jsonl", &text);
    assert_eq!(read.bad_rows, []);
    assert_eq!(read.max_attempt(), 2);
    let made = &read.by_model["codex/gpt"];
    assert_eq!(made[&("a.lv1".to_owned(), 1)].failure, None);
    assert_eq!(made[&("a.lv1".to_owned(), 2)].failure.as_deref(), Some("out of time"));
    assert_eq!(made[&("b.lv1".to_owned(), 1)].patch, "y");
}

#[test]
fn fea_bench_results_keep_models_separate() {
    let row = |model: &str| {
        json!({"instance_id": "a", "model_name_or_path": model, "text": "t", "full_output": "f",
            "model_patch": null})
    };
    let read = predictions_from_text("results.jsonl", &format!("{}\n{}", row("one"), row("two")));
    assert_eq!(read.by_model.len(), 2);
    assert_eq!(read.by_model["one"][&("a".to_owned(), 1)].patch, "");
}

#[test]
fn bad_and_duplicate_entries_are_reported_and_others_are_kept() {
    let text = "{\"instance_id\": \"a\", \"model_patch\": \"x\"}\nnope\n\
        {\"instance_id\": \"b\", \"model_patch\": 3}\n{\"model_patch\": \"x\"}\n\
        {\"instance_id\": \"a\", \"model_patch\": \"y\"}\n{\"instance_id\": \"c\", \"patch\": \"x\"}\n\
        {\"instance_id\": \"d\", \"model_patch\": \"x\", \"n_attempt\": 0}\n[]\n";
    let read = predictions_from_text("p.jsonl", text);
    let said: Vec<_> = read
        .bad_rows
        .iter()
        .map(|bad| (bad.line.unwrap(), bad.field.as_deref().unwrap_or("row"), bad.message.as_str()))
        .collect();
    assert_eq!(
        said.iter().map(|(line, field, _)| (*line, *field)).collect::<Vec<_>>(),
        [
            (2, "row"),
            (3, "model_patch"),
            (4, "instance_id"),
            (5, "instance_id"),
            (6, "model_patch"),
            (7, "n_attempt"),
            (8, "row"),
        ]
    );
    assert!(said[3].2.contains("duplicate prediction for a, attempt 1"), "{said:?}");
    assert!(said[4].2.contains("did you mean `patch`?"), "{said:?}");
    assert_eq!(read.by_model["predictions"].len(), 1);
}

#[test]
fn empty_predictions_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.jsonl");
    fs::write(&file, "\n").unwrap();
    assert!(read_predictions(&file).unwrap_err().to_string().contains("contains no predictions"));
    assert!(read_predictions(&dir.path().join("absent.json")).is_err());
}

#[test]
fn read_predictions_accepts_python_json_under_any_name() {
    let good =
        r#"{"instance_id": "b", "model_name_or_path": "m", "model_patch": "x", "cost": 1.5}"#;
    let object = "{\n  \"instance_id\": \"b\",\n  \"model_name_or_path\": \"m\",\n  \"model_patch\": \"x\"\n}";
    for odd in [
        r#"{"instance_id": "a", "model_name_or_path": "m", "model_patch": NaN}"#,
        r#"{"instance_id": "a", "model_name_or_path": "m", "model_patch": "", "cost": -Infinity}"#,
        r#"{"instance_id": "a", "model_name_or_path": "m", "model_patch": "", "note": "\ud83d"}"#,
    ] {
        for text in [
            format!("{odd}\n{good}\n"),
            format!("[\n {odd},\n {good}\n]\n"),
            format!("[{odd}, {good}]"),
            format!("{odd}\n{object}\n"),
            format!("{object}\n{odd}\n"),
        ] {
            for name in ["p.jsonl", "p.json", "p.txt"] {
                let read = predictions_from_text(name, &text);
                assert_eq!(read.bad_rows, [], "{name}: {text}");
                let made = &read.by_model["m"];
                assert_eq!(made[&("a".to_owned(), 1)].patch, "", "{name}: {text}");
                assert_eq!(made[&("b".to_owned(), 1)].patch, "x", "{name}: {text}");
            }
        }
    }
}

#[test]
fn invalid_json_line_is_reported_and_other_lines_are_read() {
    let good = r#"{"instance_id": "b", "model_name_or_path": "m", "model_patch": "x"}"#;
    let open = r#"{"instance_id": "a", "model_patch": "+x"#;
    for bad in ["Traceback (most recent call last):", open, "{", "[INFO] done"] {
        for (name, text) in
            [("p.jsonl", format!("{bad}\n{good}\n")), ("p.jsonl", format!("{good}\n{bad}\n"))]
        {
            let read = predictions_from_text(name, &text);
            assert_eq!(read.bad_rows.len(), 1, "{name}: {text}: {:?}", read.bad_rows);
            assert_eq!(read.by_model["m"].len(), 1, "{name}: {text}");
        }
    }
}
