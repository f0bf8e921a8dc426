//! Tests that the steps of sub-agents are recognized in a journal.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proctor_record::{Blobs, Journal};
use proctor_types::{Event, ModelResponse, ToolCall, Usage};
use proctor_viewer::{JournalIndex, html, html::Links, html::TrialName, read_step};
use serde_json::{Value, json};

fn served(number: u64, class: &str, conversation: Value) -> Event {
    let parent = if conversation.is_null() { Value::Null } else { json!("session") };
    serde_json::from_value(json!({
        "kind": "request_served", "number": number, "client": "messages",
        "upstream": "messages", "path": "/v1/messages", "class": class,
        "conversation": conversation, "parent": parent, "streamed": false, "status": 200, "delivered": true,
        "request": "ab", "response": "cd", "usage": null, "cost_usd": null, "seconds": 1.0,
        "first_byte_seconds": null
    }))
    .unwrap()
}

fn answered() -> Event {
    answered_with(&[])
}

/// Returns a response with calls of the tool `shell`, given by their ids and commands.
fn answered_with(calls: &[(&str, &str)]) -> Event {
    let tool_calls = calls.iter().map(|(id, command)| ToolCall {
        id: (*id).to_owned(),
        name: "shell".into(),
        arguments: json!({ "command": command }).to_string(),
    });
    let answer = ModelResponse {
        content: "done".into(),
        tool_calls: tool_calls.collect(),
        extra: Default::default(),
        native: None,
        finish_reason: None,
        refused: false,
        usage: Usage::default(),
        cost_usd: None,
    };
    Event::ModelAnswered { answer }
}

#[test]
fn steps_name_their_sub_agent_and_side_requests_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    let mut journal = Journal::create(&path, 1).unwrap();
    for (step, event) in [
        (0, served(9, "side", Value::Null)),
        (1, served(1, "main", Value::Null)),
        (1, answered()),
        (2, served(2, "main", json!("helper"))),
        (2, answered()),
        // A side request of the sub-agent, recorded with the latest step.
        (2, served(3, "side", Value::Null)),
        (3, served(4, "main", Value::Null)),
        (3, answered()),
        (3, served(5, "side", json!("helper"))),
    ] {
        journal.append(step, event).unwrap();
    }
    let index = JournalIndex::from_journal(&path).unwrap();
    let shown: Vec<Option<&str>> =
        index.rows.iter().map(|row| row.conversation.as_deref()).collect();
    assert_eq!(shown, [None, Some("helper"), None]);
    let parents: Vec<Option<&str>> = index.rows.iter().map(|row| row.parent.as_deref()).collect();
    assert_eq!(parents, [None, Some("session"), None]);
    let sides: Vec<(u64, u64, &str)> = index
        .side_requests
        .iter()
        .map(|one| (one.step, one.number, one.conversation.as_str()))
        .collect();
    assert_eq!(sides, [(0, 9, ""), (2, 3, ""), (3, 5, "helper")]);
    assert!(index.damage.is_empty(), "{:?}", index.damage);
}

fn called(id: &str, name: &str, command: &str) -> Event {
    Event::ToolCalled {
        call_id: id.into(),
        name: name.into(),
        arguments: json!({ "command": command }),
    }
}

fn index_events(events: Vec<(u64, Event)>) -> JournalIndex {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    let mut journal = Journal::create(&path, 1).unwrap();
    for (step, event) in events {
        journal.append(step, event).unwrap();
    }
    JournalIndex::from_journal(&path).unwrap()
}

#[test]
fn requested_calls_without_a_tool_call_event_are_counted() {
    let asked = || answered_with(&[("c1", "ls"), ("c2", "pwd")]);
    for (events, not_run, what) in [
        (vec![asked()], 2, "the agent crashed after the response"),
        (vec![asked(), called("c1", "shell", "ls")], 1, "the agent crashed between the calls"),
        (vec![asked(), called("c1", "shell", "ls"), called("c2", "shell", "pwd")], 0, "both ran"),
        (vec![asked(), called("x1", "shell", "ls"), called("x2", "shell", "pwd")], 0, "other ids"),
        (vec![asked(), called("1", "sandbox/exec", "ls")], 0, "the agent's own tools"),
        (vec![answered()], 0, "no calls"),
    ] {
        let index = index_events(events.into_iter().map(|event| (1, event)).collect());
        assert_eq!(index.rows[0].not_run, not_run, "{what}");
        assert!(index.damage.is_empty(), "{:?}", index.damage);
    }
}

#[test]
fn agent_messages_are_indexed_with_their_step() {
    let noted = |note: Value| {
        serde_json::from_value::<Event>(json!({ "kind": "noted", "note": note })).unwrap()
    };
    let index = index_events(vec![
        (0, noted(json!({ "agent_log": "starting" }))),
        (0, noted(json!({ "leak_check": "clean" }))),
        (1, answered()),
        (1, noted(json!({ "agent_showed": { "thought": "I think" } }))),
    ]);
    assert_eq!(index.agent_logs, [(0, "starting".to_owned()), (1, "I think".to_owned())]);
}

#[test]
fn refusal_is_shown_like_a_message() {
    let refused = |refusal: &str, finish_reason: &str| {
        let Event::ModelAnswered { answer } = answered() else { unreachable!() };
        let extra = if refusal.is_empty() { json!({}) } else { json!({ "refusal": refusal }) };
        Event::ModelAnswered {
            answer: ModelResponse {
                content: String::new(),
                extra: extra.as_object().unwrap().clone(),
                refused: true,
                finish_reason: Some(finish_reason.to_owned()),
                ..answer
            },
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    let mut journal = Journal::create(&path, 1).unwrap();
    for (step, refusal, finish_reason) in [
        (1, "I won't do this.", "stop"),
        (2, "I can't do this.", "stop"),
        (3, "", "content_filter"),
    ] {
        journal.append(step, refused(refusal, finish_reason)).unwrap();
    }
    let index = JournalIndex::from_journal(&path).unwrap();
    assert_eq!(index.rows[0].did, ["I won't do this."]);
    assert_ne!(index.rows[0].action_hash, index.rows[1].action_hash);
    let blobs = Blobs::new(folder.path().join("blobs"));
    for (step, text) in
        [(1, "I won&#x27;t do this."), (3, "a filter removed its response: <bdi>content_filter")]
    {
        let step = read_step(&index, &blobs, step).unwrap();
        let page =
            html::render_step(&step, &TrialName::default(), &index.rows, &Links::default(), false);
        assert!(page.as_ref().unwrap().contains(text), "{text}: {page:?}");
    }
}

#[test]
fn failed_requests_without_a_response_have_their_own_row() {
    let event = |fields: Value| serde_json::from_value::<Event>(fields).unwrap();
    let attempted = |error: Value| {
        event(json!({
            "kind": "model_attempted", "attempt": 1, "status": 422, "error": error,
            "wait_seconds": 0.0, "seconds": 0.5, "request": null, "body": null
        }))
    };
    let failed = |what: &str| {
        event(json!({
            "kind": "try_failed", "fault": { "layer": "model", "what": what }, "will_retry": true
        }))
    };
    let resumed = || {
        event(json!({
            "kind": "trial_resumed", "snapshot": "ab", "whole_steps": 1, "stands_to": 3
        }))
    };
    let rejected = || attempted(json!("rejected with status 422"));
    let first = || vec![(0, attempted(Value::Null)), (1, answered())];
    let faults = || {
        vec![(1, rejected()), (1, rejected()), (0, failed("busy")), (1, resumed()), (1, rejected())]
    };
    let index = index_events(first().into_iter().chain(faults()).collect());
    assert_eq!((index.rows.len(), index.rows[0].resends), (1, 0));
    assert_eq!(index.failed_tries, [(1, "model fault: busy".to_owned())]);
    let row = index.unanswered_row().unwrap();
    assert_eq!((row.number, row.resends, row.faults), (2, 3, 1));
    assert_eq!(row.did, ["request failed 3 times"]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    let blobs = Blobs::new(folder.path().join("blobs"));
    let read = |events: Vec<(u64, Event)>| {
        let mut journal = Journal::create(&path, 1).unwrap();
        for (step, event) in events {
            journal.append(step, event).unwrap();
        }
        JournalIndex::from_journal(&path).unwrap()
    };
    let index = read(first().into_iter().chain(faults()).collect());
    let notes = |step| read_step(&index, &blobs, step).unwrap().notes;
    assert!(notes(1).is_empty(), "{:?}", notes(1));
    assert_eq!(
        notes(2),
        [
            "request failed: rejected with status 422 (2 times)",
            "try failed: model fault: busy",
            "request failed: rejected with status 422"
        ]
    );
    assert!(read_step(&index, &blobs, 3).is_none());
    let step = read_step(&index, &blobs, 2).unwrap();
    let rows = index.listed_rows();
    let page =
        html::render_step(&step, &TrialName::default(), &rows, &Links::default(), false).unwrap();
    for text in ["Request for step 2", "no response", "has not responded", "busy"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("No text"), "{page}");

    // If the response arrives later, the attempts belong to its step.
    std::fs::remove_file(&path).unwrap();
    let answer = [(1, attempted(Value::Null)), (2, answered())];
    let index = read(first().into_iter().chain(faults()).chain(answer).collect());
    assert_eq!((index.rows.len(), index.rows[1].resends, index.rows[1].faults), (2, 3, 1));
    assert_eq!(index.unanswered_row(), None);
}
