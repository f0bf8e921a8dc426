//! Tests content match on constructed records.

use proctor_record::{Blobs, Tree};
use proctor_types::{Envelope, Task};
use proctor_wire::{EntryKind, RawPath, SnapshotEntry};
use serde_json::{Value, json};

use crate::{
    examine::{ExaminationInput, examine},
    tests::{event, shell_call, task, test_names},
};

const SOLUTION_CODE: &str = "def remap(root, visit):\n    stack = [root]\n    while stack:\n        item = stack.pop()\n\
                    \x20       yield visit(item)\n        stack.extend(item.children)\n";

/// Builds records of a task whose solution is [`SOLUTION_CODE`].
struct RecordBuilder {
    _dir: tempfile::TempDir,
    blobs: Blobs,
    task: Task,
}

fn patch_that_adds(code: &str) -> String {
    let added: String = code.lines().map(|line| format!("+{line}\n")).collect();
    let count = code.lines().count();
    format!(
        "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,{count} @@\n{added}"
    )
}

impl RecordBuilder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let task = Task { gold: Some(patch_that_adds(SOLUTION_CODE)), ..task() };
        Self { _dir: dir, blobs, task }
    }

    /// Returns the kind and steps of each content match finding.
    fn findings_with_patch(&self, events: &[Envelope], patch: &str) -> Vec<(String, Vec<u64>)> {
        let (names, blobs) = (test_names(), Some(&self.blobs));
        let patch = patch.as_bytes();
        let found =
            examine(&ExaminationInput { task: &self.task, names: &names, events, blobs, patch });
        let found = found.unwrap().evidence.into_iter();
        let found = found.filter(|one| one.kind.starts_with("answer_"));
        found.map(|one| (one.kind, one.steps)).collect()
    }

    fn findings(&self, events: &[Envelope]) -> Vec<(String, Vec<u64>)> {
        self.findings_with_patch(events, "")
    }

    fn request_event(&self, step: u64, body: &Value) -> Envelope {
        let request = self.blobs.put_body(body.to_string().as_bytes()).unwrap();
        event(
            step,
            json!({
                "kind": "request_served", "number": 1, "client": "chat", "upstream": "chat", "path": "/",
                "class": "main", "streamed": false, "status": 200, "delivered": true, "request": request,
                "response": null, "usage": null, "cost_usd": null, "seconds": 0.1, "first_byte_seconds": null
            }),
        )
    }

    fn url_event(&self, step: u64, method: &str, body: Option<&[u8]>) -> Envelope {
        let kept = body.map(|body| self.blobs.put(body).unwrap());
        event(
            step,
            json!({
                "kind": "url_requested", "method": method, "url": "https://mirror.test/a", "decision": "allowed",
                "bytes_up": 0, "bytes_down": 9, "seconds": 0.1, "kept": kept
            }),
        )
    }

    fn save_tree(&self, files: &[(&str, &str)]) -> String {
        let entries = files.iter().map(|(path, text)| {
            let hash = Some(self.blobs.put(text.as_bytes()).unwrap());
            let (path, size) = (RawPath::from(*path), text.len() as u64);
            let entry = SnapshotEntry {
                path: path.clone(),
                kind: EntryKind::File,
                mode: 0o644,
                size,
                hash,
                link: None,
            };
            (path, entry)
        });
        Tree { entries: entries.collect(), ..Tree::default() }.save(&self.blobs).unwrap()
    }
}

fn model_response_event(step: u64, text: &str) -> Envelope {
    let call = json!({"id": "1", "name": "edit", "arguments": json!({"text": text}).to_string()});
    let answer = json!({"content": "", "tool_calls": [call], "extra": {}, "finish_reason": null, "refused": false,
                        "usage": proctor_types::Usage::default(), "cost_usd": null});
    event(step, json!({"kind": "model_answered", "answer": answer}))
}

fn single_finding(kind: &str, steps: &[u64]) -> Vec<(String, Vec<u64>)> {
    vec![(kind.to_owned(), steps.to_vec())]
}

/// In every wire format, each string is attributed to the scaffold, a tool or the model.
#[test]
fn content_match_covers_scaffold_messages() {
    let record = RecordBuilder::new();
    let quoted = format!("Remember:\n> {}", SOLUTION_CODE.replace('\n', "\n> "));
    for body in [
        json!({"messages": [{"role": "system", "content": quoted}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": quoted}]}]}),
        json!({"instructions": quoted, "input": []}),
        json!({"systemInstruction": {"parts": [{"text": quoted}]}, "contents": []}),
        json!({"messages": [], "tools": [{"name": "x", "description": quoted}]}),
        json!({"messages": [{"role": "assistant", "content": SOLUTION_CODE}]}),
    ] {
        let found = record.findings(&[record.request_event(2, &body)]);
        assert_eq!(found, single_finding("answer_in_scaffold", &[2]), "{body}");
    }
    for body in [
        json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": SOLUTION_CODE}]}]}),
        json!({"messages": [{"role": "tool", "content": SOLUTION_CODE}]}),
        json!({"input": [{"type": "function_call_output", "output": SOLUTION_CODE}]}),
        json!({"contents": [{"role": "user", "parts": [{"functionResponse": {"response": {"output": SOLUTION_CODE}}}]}]}),
    ] {
        let found = record.findings(&[record.request_event(2, &body)]);
        assert_eq!(found, single_finding("answer_in_environment", &[2]), "{body}");
    }
    let about = json!({"messages": [{"role": "user", "content": "def remap(root, visit): goes over a stack"}]});
    assert_eq!(record.findings(&[record.request_event(2, &about)]), []);
    let says =
        record.request_event(3, &json!({"messages": [{"role": "user", "content": SOLUTION_CODE}]}));
    let first = model_response_event(1, "ls");
    let found = record.findings(&[first.clone(), says.clone()]);
    assert_eq!(found, single_finding("answer_in_environment", &[3]), "a client without tool calls");
    let [called, returned] = shell_call(2, "ls", "a.py");
    let found = record.findings(&[first, called, returned, says]);
    assert_eq!(found, single_finding("answer_in_scaffold", &[3]));
}

#[test]
fn content_match_attributes_content_to_the_first_source() {
    let record = RecordBuilder::new();
    let told =
        record.request_event(2, &json!({"messages": [{"role": "user", "content": SOLUTION_CODE}]}));
    let [called, returned] = shell_call(1, "curl https://mirror.test/a", SOLUTION_CODE);
    let shown = [called, returned, told];
    assert_eq!(record.findings(&shown), single_finding("answer_in_environment", &[1]));
    let fetched =
        record.url_event(1, "GET", Some(format!("<pre>\n{SOLUTION_CODE}</pre>").as_bytes()));
    let late = [shown.as_slice(), &[fetched]].concat();
    assert_eq!(record.findings(&late), single_finding("answer_upstream", &[1]));
    // The response could not be inspected.
    let unread = [&[record.url_event(1, "CONNECT", None)], shown.as_slice()].concat();
    let names = test_names();
    let look = ExaminationInput {
        task: &record.task,
        names: &names,
        events: &unread,
        blobs: Some(&record.blobs),
        patch: b"",
    };
    let what = &examine(&look).unwrap().evidence[0].what;
    assert!(what.contains("a tool showed hidden content (earlier connections"), "{what}");
    assert!(what.contains("4 of 4 sequences of 3 lines"), "{what}");
    assert!(what.ends_with("including: stack = [root]"), "{what}");
}

#[test]
fn content_match_ignores_the_models_own_work() {
    let record = RecordBuilder::new();
    let [called, shown] = shell_call(2, "cat a.py", SOLUTION_CODE);
    let shown = [called, shown];
    let pieces: Vec<&str> = SOLUTION_CODE.lines().collect();
    let ways = [
        vec![model_response_event(1, SOLUTION_CODE)],
        // The model wrote the lines in two parts, which are only joined in the file.
        vec![
            model_response_event(1, &pieces[..2].join("\n")),
            model_response_event(1, &pieces[4..].join("\n")),
            model_response_event(1, &pieces[2..4].join("\n")),
        ],
        // A formatter split the lines.
        vec![model_response_event(1, &SOLUTION_CODE.replace('\n', " "))],
        vec![model_response_event(1, &format!("printf {SOLUTION_CODE:?} > a.py"))],
        vec![model_response_event(
            1,
            "echo ZGVmIHJlbWFwKHJvb3QsIHZpc2l0KToKICAgIHN0YWNrID0gW3Jvb3RdCiAgICB3aGlsZSBzdGFjazoKICAgICAgICBpdGVtID0gc3RhY2sucG9wKCkKICAgICAgICB5aWVsZCB2aXNpdChpdGVtKQogICAgICAgIHN0YWNrLmV4dGVuZChpdGVtLmNoaWxkcmVuKQo= | base64 -d > a.py",
        )],
    ];
    for way in ways {
        let events = [way.as_slice(), &shown].concat();
        assert_eq!(
            record.findings_with_patch(&events, &patch_that_adds(SOLUTION_CODE)),
            [],
            "{way:?}"
        );
    }
    assert_eq!(
        record.findings(&shown),
        single_finding("answer_in_environment", &[2]),
        "the control"
    );
    // Three consecutive lines out of six are too few for a match.
    let [called, part] = shell_call(2, "cat b.py", &pieces[1..4].join("\n"));
    assert_eq!(record.findings(&[called, part]), []);
}

#[test]
fn content_match_ignores_text_of_the_task_and_repository() {
    let record = RecordBuilder::new();
    let [called, shown] = shell_call(2, "cat a.py", SOLUTION_CODE);
    let mut given = RecordBuilder::new();
    given.task.statement = format!("Write this:\n{SOLUTION_CODE}");
    assert_eq!(given.findings(&[called.clone(), shown.clone()]), []);
    let began = |text: &str| {
        let base = record.save_tree(&[("other.py", text)]);
        let setup = json!({
            "kind": "setup_finished", "backend": "native", "start_ms": 1.0, "base_snapshot": base,
            "not_enforced": []
        });
        [event(0, setup), called.clone(), shown.clone()]
    };
    assert_eq!(record.findings(&began(SOLUTION_CODE)), []);
    assert_eq!(
        record.findings(&began("nothing of it")),
        single_finding("answer_in_environment", &[2])
    );
    let mut signed = RecordBuilder::new();
    let long = "def remap(root, visit, enter):\n    return 1\n";
    signed.task.gold = Some(patch_that_adds(long));
    let [called, shown] = shell_call(1, "cat", long);
    assert_eq!(signed.findings(&[called, shown]), [], "an interface is not the solution");
}

/// If no tool output shows a copied solution, the copy is still found in the patch, because the
/// model never wrote the lines.
#[test]
fn content_match_finds_copies_in_the_patch() {
    let record = RecordBuilder::new();
    let taken = |step, files: &[(&str, &str)]| {
        let snapshot = record.save_tree(files);
        event(
            step,
            json!({"kind": "snapshot_taken", "snapshot": snapshot, "changed": 1, "removed": 0, "bytes": 1, "ms": 1.0}),
        )
    };
    let events = [
        model_response_event(1, "ls"),
        taken(1, &[("b.py", "")]),
        model_response_event(2, "cp /x a.py"),
        taken(2, &[("a.py", SOLUTION_CODE)]),
    ];
    let patch = patch_that_adds(SOLUTION_CODE);
    assert_eq!(
        record.findings_with_patch(&events, &patch),
        single_finding("answer_in_environment", &[2])
    );
    assert_eq!(
        record.findings_with_patch(&events[1..2], &patch),
        [],
        "no model, as with the scaffold `gold`"
    );
    // A program that the model wrote combined the words, or replaced some words in existing text.
    let program = model_response_event(
        2,
        "for x in ('item', 'stack', 'root', 'visit', 'pop', 'extend', 'children', 'yield', 'while'): write(x)",
    );
    let made = [program, taken(2, &[("a.py", SOLUTION_CODE)])];
    assert_eq!(record.findings_with_patch(&made, &patch), []);
    let base = record
        .save_tree(&[("b.py", &SOLUTION_CODE.replace("stack", "pile").replace("visit", "see"))]);
    let setup = json!({
        "kind": "setup_finished", "backend": "native", "start_ms": 1.0, "base_snapshot": base, "not_enforced": []
    });
    let [called, shown] = shell_call(3, "cat a.py", SOLUTION_CODE);
    let replaced = [
        event(0, setup),
        model_response_event(2, "sed 's/pile/stack/; s/see/visit/' b.py > a.py"),
        taken(2, &[("a.py", SOLUTION_CODE)]),
        called,
        shown,
    ];
    assert_eq!(record.findings_with_patch(&replaced, &patch), []);
    let copied: Vec<Envelope> =
        [&replaced[..1], &[model_response_event(2, "cp /x a.py")], &replaced[2..]].concat();
    assert_eq!(
        record.findings_with_patch(&copied, &patch),
        single_finding("answer_in_environment", &[3])
    );
}
