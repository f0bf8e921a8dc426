//! Tests that repeated parts of bodies and manifests are stored only once, and that all content is
//! returned unchanged.

use std::{fs, time::Instant};

use proctor_record::{Blobs, Tree};
use proctor_wire::{EntryKind, RawPath, SnapshotEntry, SnapshotReply};
use proptest::prelude::*;

/// Returns text that does not compress well.
fn incompressible_text(seed: u64, bytes: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{:x} ", state >> 40));
    }
    text
}

fn request_body(messages: &[String]) -> Vec<u8> {
    format!("{{\"model\":\"m\",\"messages\":[{}],\"tools\":[1,2,3]}}", messages.join(",")).into()
}

#[test]
fn pack_returns_all_bodies_and_stores_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("trial/blobs.pack");
    let blobs = Blobs::new(folder.path().join("blobs")).with_pack(&pack);
    let (mut messages, mut sent) = (Vec::new(), Vec::new());
    for step in 0..200 {
        messages.push(format!("\"{}\"", incompressible_text(step, 2000)));
        sent.push(request_body(&messages));
        // A client's side requests alternate with requests of the conversation.
        if step % 7 == 0 {
            sent.push(request_body(&[format!("\"title? {}\"", incompressible_text(step, 300))]));
        }
        let hash = blobs.put_body(sent.last().unwrap()).unwrap();
        assert_eq!(hash, Blobs::hash(sent.last().unwrap()));
        if step % 7 == 0 {
            blobs.put_body(&sent[sent.len() - 2]).unwrap();
        }
    }
    let size = fs::metadata(&pack).unwrap().len();
    let all: usize = sent.iter().map(Vec::len).sum();
    assert!(size < 450_000 && all > 40_000_000, "{size} of {all}");
    assert!(!folder.path().join("blobs").exists(), "bodies must not be stored as separate files");
    // Read the bodies as another process would: in order, in reverse order, and a single one.
    let fresh = || Blobs::new(folder.path().join("blobs")).with_pack(&pack);
    let reader = fresh();
    assert!(sent.iter().all(|body| reader.get(&Blobs::hash(body)).unwrap() == *body));
    for body in sent.iter().rev().step_by(50) {
        assert_eq!(fresh().get(&Blobs::hash(body)).unwrap(), *body);
    }
}

#[test]
fn kill_during_write_loses_only_the_last_pack_entry() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("blobs.pack");
    let blobs = Blobs::new(folder.path()).with_pack(&pack);
    let contents: Vec<_> = (0..5).map(|n| incompressible_text(n, 500).into_bytes()).collect();
    let hashes: Vec<_> = contents.iter().map(|one| blobs.put(one).unwrap()).collect();
    let whole = fs::read(&pack).unwrap();
    for cut in (whole.len() - 200)..whole.len() {
        fs::write(&pack, &whole[..cut]).unwrap();
        let blobs = Blobs::new(folder.path()).with_pack(&pack);
        for (hash, content) in hashes.iter().zip(&contents).take(4) {
            assert_eq!(blobs.get(hash).unwrap(), *content);
        }
        assert!(blobs.get(&hashes[4]).is_err() && !blobs.contains(&hashes[4]));
        // The next entry replaces the incomplete one.
        blobs.put(b"more").unwrap();
        assert_eq!(blobs.get(&Blobs::hash(b"more")).unwrap(), b"more");
    }
}

#[test]
fn corruption_loses_only_the_corrupt_pack_entry() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("blobs.pack");
    let blobs = Blobs::new(folder.path()).with_pack(&pack);
    let contents: Vec<_> = (0..5).map(|n| incompressible_text(n, 500).into_bytes()).collect();
    let hashes: Vec<_> = contents.iter().map(|one| blobs.put(one).unwrap()).collect();
    let whole = fs::read(&pack).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&pack, &bytes).unwrap();
        let blobs = Blobs::new(folder.path()).with_pack(&pack);
        let lost = hashes.iter().zip(&contents).filter(|(hash, content)| {
            let got = blobs.get(hash);
            assert!(got.as_ref().map_or(true, |got| got == *content), "wrong content");
            got.is_err()
        });
        assert_eq!(lost.count(), 1, "byte {at}");
    }
}

fn file_entry(path: &str, hash: &str) -> SnapshotEntry {
    SnapshotEntry {
        path: RawPath::from(path),
        kind: EntryKind::File,
        mode: 0o644,
        size: 10,
        hash: Some(Blobs::hash(hash.as_bytes())),
        link: None,
    }
}

fn snapshot_reply(entries: Vec<SnapshotEntry>, removed: Vec<RawPath>) -> SnapshotReply {
    SnapshotReply { changed: entries, removed, ..SnapshotReply::default() }
}

#[test]
fn pack_stores_changed_manifests_as_differences() {
    let folder = tempfile::tempdir().unwrap();
    let pack = folder.path().join("blobs.pack");
    let shared = Blobs::new(folder.path().join("blobs"));
    let blobs = shared.with_pack(&pack);
    let mut tree = Tree::default();
    let all =
        (0..2000).map(|n| file_entry(&format!("src/module_{n}/file.py"), &n.to_string())).collect();
    tree.apply_snapshot(&snapshot_reply(all, vec![]));
    let base = tree.save(&blobs).unwrap();
    let mut trees = vec![(base.clone(), tree.clone())];
    for step in 0..24 {
        let before = trees.last().unwrap().0.clone();
        let reply = match step % 4 {
            0 => snapshot_reply(
                vec![file_entry("src/module_7/file.py", &format!("v{step}"))],
                vec![],
            ),
            1 => snapshot_reply(
                vec![file_entry(&format!("new_{step}"), "n")],
                vec!["src/module_9/file.py".into()],
            ),
            2 => snapshot_reply(vec![], vec![]),
            // Return to the trial's initial state, and then change the tree again.
            _ => {
                let back = trees[0].1.diff(&tree).map(|one| one.path.clone()).collect::<Vec<_>>();
                let (there, gone): (Vec<_>, Vec<_>) =
                    back.into_iter().partition(|path| trees[0].1.entries.contains_key(path));
                let there = there.iter().map(|path| trees[0].1.entries[path].clone()).collect();
                snapshot_reply(there, gone)
            }
        };
        tree.apply_snapshot(&reply);
        let hash = tree.save_as_diff(&blobs, &before, &reply).unwrap();
        assert_eq!(hash, tree.digest());
        trees.push((hash, tree.clone()));
    }
    assert!(fs::metadata(&pack).unwrap().len() < 30_000);
    let reader = shared.with_pack(&pack);
    let begun = Instant::now();
    for (hash, tree) in trees.iter().chain(trees.iter().rev().step_by(9)) {
        assert_eq!(Tree::load(&reader, hash).unwrap(), *tree);
        assert_eq!(reader.get(hash).unwrap(), tree.to_json());
    }
    assert!(begun.elapsed().as_secs() < 60);
    assert_eq!(trees[4].0, base);
}

proptest! {
    #[test]
    fn pack_returns_any_bodies_in_any_order(bodies in prop::collection::vec(prop::collection::vec(0u8..4, 0..300), 1..20)) {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("blobs.pack");
        let blobs = Blobs::new(folder.path()).with_pack(&pack);
        for body in &bodies {
            prop_assert_eq!(blobs.put_body(body).unwrap(), Blobs::hash(body));
        }
        let reader = Blobs::new(folder.path()).with_pack(&pack);
        for body in &bodies {
            prop_assert_eq!(&blobs.get(&Blobs::hash(body)).unwrap(), body);
            prop_assert_eq!(&reader.get(&Blobs::hash(body)).unwrap(), body);
        }
    }
}
