//! Fuzzes dataset files, which come from third parties and may therefore contain arbitrary bytes.

use std::fs;

use fuzz::{assert_error_text, fuzz};
use proctor_datasets::{load, parse_task};

#[test]
fn rows_become_tasks_or_bad_rows() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/rows");
    fuzz(seeds, |bytes| {
        fs::write(dir.path().join("rows.jsonl"), bytes).unwrap();
        let loaded = match load(&["rows.jsonl".to_owned()], dir.path()) {
            Ok(loaded) => loaded,
            Err(error) => {
                assert_error_text(&error.to_string(), "rows.jsonl");
                return false;
            }
        };
        for bad in &loaded.bad_rows {
            assert_error_text(&bad.to_string(), "rows.jsonl");
        }
        for task in &loaded.tasks {
            assert!(loaded.origins.contains_key(&task.id), "{} has no origin", task.id);
            // A task that is written to a run's `tasks.jsonl` must be read back unchanged.
            let text = serde_json::to_string(task).unwrap();
            assert_eq!(parse_task(&text).as_ref(), Ok(task), "{text}");
        }
        loaded.bad_rows.is_empty() && !loaded.tasks.is_empty()
    });
}
