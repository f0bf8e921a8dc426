//! Tests that the steps of sub-agents are recognized in a journal.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proctor_record::Journal;
use proctor_types::{Event, ModelResponse, Usage};
use proctor_viewer::JournalIndex;
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
