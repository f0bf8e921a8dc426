//! Tests that the steps of a trial are marked as edits only if their diffs are not empty.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proctor_record::{Blobs, Journal, Tree};
use proctor_types::{Event, ModelResponse, Usage};
use proctor_viewer::JournalIndex;
use serde_json::json;

/// Stores a tree with the given files. Returns its hash.
fn save_tree(blobs: &Blobs, files: &[(&str, &str)]) -> String {
    let entry = |(path, content): &(&str, &str)| {
        let hash = blobs.put(content.as_bytes()).unwrap();
        json!({ "path": path, "kind": "file", "mode": 0o644, "size": content.len(), "hash": hash })
    };
    let entries: Vec<_> = files.iter().map(entry).collect();
    let manifest = json!({ "manifest": 1, "entries": entries }).to_string();
    Tree::from_json(manifest.as_bytes()).unwrap().save(blobs).unwrap()
}

fn answered() -> Event {
    let answer = ModelResponse {
        content: "done".into(),
        tool_calls: vec![],
        extra: Default::default(),
        native: None,
        finish_reason: None,
        refused: false,
        usage: Usage::default(),
        cost_usd: None,
    };
    Event::ModelAnswered { answer }
}

fn snapshot(snapshot: &str, changed: u64) -> Event {
    let snapshot = snapshot.to_owned();
    Event::SnapshotTaken { snapshot, changed, removed: 0, bytes: 1, ms: 1.0, outside: None }
}

#[test]
fn changed_paths_that_the_patch_leaves_out_are_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path().join("blobs"));
    let first = save_tree(&blobs, &[("a.py", "1\n")]);
    let ignored = save_tree(&blobs, &[("__pycache__/a.pyc", "x"), ("a.py", "1\n")]);
    let edited = save_tree(
        &blobs,
        &[("__pycache__/a.pyc", "x"), ("__pycache__/b.pyc", "y"), ("a.py", "2\n")],
    );
    let missing = Blobs::hash(b"missing");
    let path = folder.path().join("trajectory.jsonl");
    let mut journal = Journal::create(&path, 1).unwrap();
    journal.append(0, snapshot(&first, 1)).unwrap();
    for (step, tree) in [(1, &ignored), (2, &edited), (3, &missing)] {
        journal.append(step, answered()).unwrap();
        journal.append(step, snapshot(tree, 2)).unwrap();
    }
    let mut index = JournalIndex::from_journal(&path).unwrap();
    let counts =
        |index: &JournalIndex| -> Vec<u64> { index.rows.iter().map(|row| row.changed).collect() };
    assert_eq!(counts(&index), [2, 2, 2], "the journal counts all paths");
    index.count_paths_in_diffs(&blobs);
    assert_eq!(counts(&index), [0, 1, 2], "without the tree, the journal's count is kept");
    index.count_paths_in_diffs(&blobs);
    assert_eq!(counts(&index), [0, 1, 2]);
}
