//! Fuzzes the journal reader. A journal on disk may contain arbitrary bytes, with valid or invalid
//! checksums.

use std::fs;

use fuzz::{assert_error_text, fuzz};
use pretty_assertions::assert_eq;
use proctor_record::{Journal, read_journal};
use proctor_types::{Envelope, Event};

const CHECKSUM_KEY: &[u8] = b",\"sum\":\"";

#[test]
fn read_journal_survives_random_corruption() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trajectory.jsonl");
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/seeds/journals");
    fuzz(seeds, |bytes| {
        // A mutated line hardly ever has a valid checksum, so add valid checksums to every other
        // input.
        let bytes = if bytes.len().is_multiple_of(2) {
            with_valid_checksums(bytes)
        } else {
            bytes.to_vec()
        };
        fs::write(&path, &bytes).unwrap();
        let reading = read_journal(&path).unwrap();
        assert!(reading.complete_bytes <= bytes.len() as u64);
        for bad in &reading.bad_lines {
            assert_error_text(&bad.to_string(), &format!("trajectory.jsonl:{}: ", bad.line));
        }
        // An event kind of a later version is kept unchanged and may have duplicate keys.
        let known = |one: &&Envelope| !matches!(one.event, Event::Unknown(_));
        for event in reading.events.iter().filter(known) {
            let text = serde_json::to_string(event).unwrap();
            assert_eq!(&serde_json::from_str::<Envelope>(&text).unwrap(), event, "{text}");
        }
        match Journal::open(&path) {
            // Appending an event later must not lose any event that was read.
            Ok(mut journal) => {
                assert_eq!(reading.bad_lines, []);
                journal.append(0, Event::Noted { note: Default::default() }).unwrap();
                drop(journal);
                let after = read_journal(&path).unwrap();
                assert!(!after.is_torn && after.bad_lines.is_empty());
                assert_eq!(after.events[..reading.events.len()], reading.events);
                assert_eq!(after.events.len(), reading.events.len() + 1);
                true
            }
            Err(error) => {
                assert_error_text(&error.to_string(), "trajectory.jsonl");
                assert!(!reading.bad_lines.is_empty(), "rejected without a reason: {error}");
                false
            }
        }
    });
}

/// Gives every complete line a valid checksum.
fn with_valid_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let at = line.windows(CHECKSUM_KEY.len()).rposition(|window| window == CHECKSUM_KEY);
        let Some(at) = at.filter(|_| line.ends_with(b"\n")) else {
            out.extend_from_slice(line);
            continue;
        };
        let whole = [&line[..at], b"}"].concat();
        let sum = blake3::hash(&whole).to_hex();
        out.extend_from_slice(&line[..at]);
        out.extend_from_slice(format!(",\"sum\":\"{}\"}}\n", &sum[..16]).as_bytes());
    }
    out
}
