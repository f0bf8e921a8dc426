//! Tests that a lost blob is reported for the location that stored it: the run's directory, or the
//! trial's pack.

use std::fs;

use proctor_record::{Journal, RunDir, Tree};
use proctor_types::{ArmId, Event, TaskId, TrialId};
use proctor_wire::{EntryKind, RawPath, SnapshotEntry, SnapshotReply};

fn file_entry(path: &str, hash: &str, size: u64) -> SnapshotEntry {
    SnapshotEntry {
        path: RawPath::new(path),
        kind: EntryKind::File,
        mode: 0o644,
        size,
        hash: Some(hash.to_owned()),
        link: None,
    }
}

fn snapshot_reply(entries: Vec<SnapshotEntry>) -> SnapshotReply {
    SnapshotReply {
        changed: entries,
        removed: Vec::new(),
        unwalked: Vec::new(),
        entries: 3,
        took_us: 1,
    }
}

#[test]
fn verify_reports_missing_blobs_where_they_were_stored() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path().join("run")).unwrap();
    let id =
        TrialId { task: TaskId::new("t"), arm: ArmId::new("a".repeat(64).as_str()), attempt: 1 };
    let dir = run.create_trial_dir(&id).unwrap();
    let blobs = run.trial_blobs(&dir);
    let (one, two) = (blobs.put_shared(b"one").unwrap(), blobs.put_shared(b"two").unwrap());
    let own = blobs.put(b"the agent's").unwrap();
    let mut tree = Tree::default();
    tree.apply_snapshot(&snapshot_reply(vec![
        file_entry("one", &one, 3),
        file_entry("two", &two, 3),
    ]));
    let base = tree.save(&blobs).unwrap();
    let change = snapshot_reply(vec![file_entry("own", &own, 11)]);
    tree.apply_snapshot(&change);
    let after = tree.save_as_diff(&blobs, &base, &change).unwrap();
    let mut journal = Journal::create(dir.trajectory_path(), 1).unwrap();
    let started =
        Event::TrialStarted { task: id.task.clone(), arm: id.arm.to_string(), attempt: 1 };
    journal.append(0, started).unwrap();
    let begun = Event::SetupFinished {
        backend: "native".into(),
        start_ms: 1.0,
        base_snapshot: base,
        not_enforced: Vec::new(),
        environment: None,
    };
    journal.append(0, begun).unwrap();
    let taken = Event::SnapshotTaken {
        snapshot: after,
        changed: 1,
        removed: 0,
        bytes: 11,
        ms: 1.0,
        outside: None,
    };
    journal.append(1, taken).unwrap();
    let verify = || {
        run.verifier()
            .verify_trial(&id)
            .corruptions
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(verify(), Vec::<String>::new());
    let place = |hash: &str| run.blobs().root().join(&hash[..2]).join(&hash[2..]);

    fs::remove_file(place(&one)).unwrap();
    let told = verify();
    let wanted = format!("{}: missing, but the journal refers to it", place(&one).display());
    assert_eq!(told, vec![wanted]);
    fs::remove_file(place(&two)).unwrap();
    let told = verify();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("with 1 other blob that the journal refers to"), "{told:?}");

    // The pack is reported as a separate problem, with its own number of blobs.
    fs::write(dir.pack_path(), "").unwrap();
    let told = verify();
    let of_pack = |line: &&String| line.starts_with(&dir.pack_path().display().to_string());
    let of_pack: Vec<_> = told.iter().filter(of_pack).collect();
    assert_eq!(of_pack.len(), 1, "{told:?}");
    assert!(of_pack[0].ends_with("does not contain 1 blob that the journal refers to"), "{told:?}");
}
