//! Tests what a journal guarantees after truncation and bit flips.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::fs;

use proctor_record::{Journal, RecordError, read_journal};
use proctor_types::{Event, ModelResponse, Usage};
use proptest::prelude::*;
use serde_json::{Map, json};

fn note_event(text: &str) -> Event {
    let mut note = Map::new();
    note.insert("text".into(), json!(text));
    Event::Noted { note }
}

fn response_event(text: &str) -> Event {
    Event::ModelAnswered {
        answer: ModelResponse {
            native: None,
            content: text.into(),
            tool_calls: vec![],
            extra: Map::new(),
            finish_reason: Some("stop".into()),
            refused: false,
            usage: Usage { input: 10, output: 2, ..Usage::default() },
            cost_usd: Some(0.25),
        },
    }
}

fn write_three_lines(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("trajectory.jsonl");
    let mut journal = Journal::create(&path, 2).unwrap();
    assert_eq!(journal.append(0, note_event("a \"quoted\",\"sum\":\"line\"}\n")).unwrap(), 1);
    assert_eq!(journal.append_durable(1, response_event("é")).unwrap(), 2);
    assert_eq!(journal.append(1, note_event("last")).unwrap(), 3);
    path
}

#[test]
fn journal_round_trips_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_three_lines(folder.path());
    let reading = read_journal(&path).unwrap();
    assert!(!reading.is_torn && reading.bad_lines.is_empty());
    assert_eq!(reading.events.len(), 3);
    assert_eq!(reading.events[1].event, response_event("é"));
    assert_eq!(reading.events[1].step, 1);
    assert!(reading.events.iter().all(|event| event.try_number == 2));
    assert!(reading.events.windows(2).all(|pair| pair[0].t_mono <= pair[1].t_mono));
}

/// Tests truncation at every byte offset.
#[test]
fn journal_truncated_anywhere_keeps_complete_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_three_lines(folder.path());
    let whole = fs::read(&path).unwrap();
    let events = read_journal(&path).unwrap().events;
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        // A line is complete even if its newline is missing.
        let unended = whole.get(cut) == Some(&b'\n');
        let ended = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let complete = ended + usize::from(unended);
        let reading = read_journal(&path).unwrap();
        assert_eq!(reading.events, events[..complete], "cut at {cut}");
        let torn = cut > 0 && whole[cut - 1] != b'\n' && !unended;
        assert_eq!((reading.is_torn, reading.lacks_final_newline), (torn, unended), "cut at {cut}");
        assert!(reading.bad_lines.is_empty(), "cut at {cut}");
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.append(1, note_event("more")).unwrap(), complete as u64 + 1);
        drop(journal);
        let hinted = read_journal(&path).unwrap();
        assert!(!hinted.is_torn && hinted.bad_lines.is_empty(), "cut at {cut}");
        assert_eq!(hinted.events.len(), complete + 1);
        if complete > 0 {
            assert_eq!(hinted.events[complete].try_number, 2);
            assert!(hinted.events[complete].t_mono >= events[complete - 1].t_mono);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn read_journal_reports_a_flipped_byte(at in any::<prop::sample::Index>(), mask in 1u8..=255) {
        let folder = tempfile::tempdir().unwrap();
        let path = write_three_lines(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        bytes[at] ^= mask;
        fs::write(&path, &bytes).unwrap();
        let reading = read_journal(&path).unwrap();
        let last = at == bytes.len() - 1;
        prop_assert_eq!(reading.is_torn, last);
        if !last {
            let bad = &reading.bad_lines[0];
            prop_assert_eq!(bad.line, line);
            prop_assert!(bad.to_string().contains("trajectory.jsonl"));
            prop_assert!(Journal::open(&path).is_err());
        }
    }
}

#[test]
fn read_journal_keeps_unknown_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    let line = r#"{"v":9,"seq":1,"try":1,"step":0,"t_mono":0.0,"t_wall":1.0,"kind":"dreamt","of":["sheep"]}"#;
    let sum = &blake3::hash(line.as_bytes()).to_hex()[..16];
    fs::write(&path, format!("{},\"sum\":\"{sum}\"}}\n", &line[..line.len() - 1])).unwrap();
    let reading = read_journal(&path).unwrap();
    assert!(reading.bad_lines.is_empty(), "{:?}", reading.bad_lines);
    let Event::Unknown(fields) = &reading.events[0].event else {
        panic!("the unknown event was not kept")
    };
    assert_eq!(fields["of"], json!(["sheep"]));
    assert_eq!(fields["kind"], json!("dreamt"));
    assert_eq!(serde_json::to_string(&reading.events[0]).unwrap(), line);
}

#[test]
fn read_journal_reports_invalid_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    for (fields, named) in [
        (
            r#""kind":"tool_called","call_id":"1","name":"ls""#,
            "tool_called: missing key `arguments`",
        ),
        (
            r#""kind":"patch_collected","bytes":-1,"files":1,"hash":"0""#,
            "patch_collected: must be a non-negative whole number",
        ),
    ] {
        let line =
            format!(r#"{{"v":2,"seq":1,"try":1,"step":0,"t_mono":0.0,"t_wall":1.0,{fields}}}"#);
        let sum = &blake3::hash(line.as_bytes()).to_hex()[..16];
        fs::write(&path, format!("{},\"sum\":\"{sum}\"}}\n", &line[..line.len() - 1])).unwrap();
        let reading = read_journal(&path).unwrap();
        assert!(reading.events.is_empty(), "{:?}", reading.events);
        let said = reading.first_lost_line().unwrap().to_string();
        assert!(said.contains(":1: ") && said.contains(named), "{said}");
        assert!(said.contains("another version of Proctor wrote it"), "{said}");
        assert!(Journal::open(&path).is_err());
    }
}

#[test]
fn read_journal_reports_a_missing_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_three_lines(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    fs::write(&path, format!("{}{}", lines[0], lines[2])).unwrap();
    let reading = read_journal(&path).unwrap();
    assert_eq!(reading.bad_lines.len(), 1);
    assert!(reading.bad_lines[0].reason.contains("expected event 2, found event 3"));
}

#[test]
fn journal_allows_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trajectory.jsonl");
    let journal = Journal::create(&path, 1).unwrap();
    assert!(matches!(Journal::open(&path), Err(RecordError::Locked { .. })));
    assert!(Journal::create(&path, 1).is_err());
    drop(journal);
    assert!(Journal::open(&path).is_ok());
}
