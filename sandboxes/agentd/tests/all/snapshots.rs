//! Tests that snapshots report changes and send each piece of content once.

#![expect(clippy::unwrap_used, reason = "a failure here fails a test")]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use proctor_wire::{
    ChangesRequest, EntryKind, RawPath, RefusalKind, Reply, Request, SnapshotEntry, SnapshotReply,
    SnapshotRequest,
};

use crate::support::{Agent, raw_path};

fn snapshot_request(root: &Path) -> SnapshotRequest {
    SnapshotRequest {
        root: raw_path(root),
        fresh: false,
        skip: vec![".git".into()],
        file_limit: 1 << 20,
        entry_limit: 100_000,
        content_limit: 0,
    }
}

fn take_snapshot(
    agent: &mut Agent,
    request: SnapshotRequest,
) -> (SnapshotReply, BTreeMap<String, Vec<u8>>) {
    let answer = agent.ask(&Request::Snapshot(request));
    let Ok(Reply::Snapshot(mut reply)) = answer.reply else { panic!("{:?}", answer.reply) };
    let mut blobs = BTreeMap::new();
    let mut rest = &answer.stdout[..];
    while let Some((header, more)) = rest.split_first_chunk::<8>() {
        let length = u64::from_be_bytes(*header) as usize;
        let hash = blake3::hash(&more[..length]).to_hex().to_string();
        assert!(
            blobs.insert(hash, more[..length].to_vec()).is_none(),
            "the same content was sent twice"
        );
        rest = &more[length..];
    }
    assert!(rest.is_empty());
    for line in answer.results.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice::<SnapshotEntry>(line) {
            Ok(entry) => reply.changed.push(entry),
            Err(_) => reply.removed.push(serde_json::from_slice(line).unwrap()),
        }
    }
    (reply, blobs)
}

fn paths(reply: &SnapshotReply) -> Vec<String> {
    reply.changed.iter().map(|entry| entry.path.to_escaped()).collect()
}

#[test]
fn snapshot_sends_only_changes() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("d/e")).unwrap();
    fs::create_dir(at(".git")).unwrap();
    fs::write(at(".git/x"), "never").unwrap();
    fs::write(at("d/a"), "same").unwrap();
    fs::write(at("d/e/b"), "same").unwrap();
    fs::write(at("d.txt"), "").unwrap();
    fs::write(at("big"), vec![7; (1 << 20) + 1]).unwrap();
    symlink("d/a", at("link")).unwrap();
    agent.shell(&format!("mkfifo {}", at("pipe").display()));
    let (first, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    // The entries are sorted by bytes, so '.' comes before '/'.
    let all = [".git", "big", "d", "d.txt", "d/a", "d/e", "d/e/b", "link", "pipe"];
    assert_eq!(paths(&first), all);
    assert_eq!(first.entries, 9);
    assert_eq!(blobs.values().map(Vec::as_slice).collect::<Vec<_>>().len(), 2);
    let entry = |name: &str| first.changed.iter().find(|e| e.path == RawPath::from(name)).unwrap();
    assert_eq!(blobs[entry("d/a").hash.as_ref().unwrap()], b"same");
    assert_eq!((entry("big").size, &entry("big").hash), ((1 << 20) + 1, &None));
    assert_eq!(entry("link").link, Some(RawPath::from("d/a")));
    assert_eq!((entry("pipe").kind, &entry("pipe").hash), (EntryKind::Other, &None));

    let (second, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!((paths(&second).len(), second.removed.len(), blobs.len()), (0, 0, 0));

    // A change that keeps the size and happens within one clock tick must be detected every time.
    for round in 0..20 {
        fs::write(at("d/a"), format!("{round:04}")).unwrap();
        let (reply, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
        assert_eq!(paths(&reply), ["d/a"]);
        assert_eq!(blobs.values().next().unwrap(), format!("{round:04}").as_bytes());
    }
    fs::remove_dir_all(at("d/e")).unwrap();
    fs::set_permissions(at("d.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(at("link")).unwrap();
    fs::write(at("link"), "same").unwrap();
    let (reply, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!(paths(&reply), ["d.txt", "link"]);
    assert_eq!(reply.removed, [RawPath::from("d/e"), "d/e/b".into()]);
    assert!(blobs.is_empty(), "this content was sent before");
    let (reply, blobs) = take_snapshot(
        &mut agent,
        SnapshotRequest { fresh: true, ..snapshot_request(folder.path()) },
    );
    assert_eq!((reply.changed.len(), blobs.len()), (7, 3));
}

/// `mv` to another file system copies the directory, so a link at the old path leads to the same
/// work.
#[test]
fn snapshot_follows_a_link_to_the_moved_tree() {
    let (mut agent, place) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name);
    for folder in ["work", "moved"] {
        fs::create_dir_all(at(folder).join("src")).unwrap();
        fs::write(at(folder).join("src/a"), "same").unwrap();
        fs::write(at(folder).join("b"), "same").unwrap();
    }
    take_snapshot(&mut agent, snapshot_request(&at("work")));
    fs::remove_dir_all(at("work")).unwrap();
    fs::write(at("moved/new"), "more").unwrap();
    symlink(at("moved"), at("work")).unwrap();
    let (reply, _) = take_snapshot(&mut agent, snapshot_request(&at("work")));
    assert!(reply.removed.is_empty(), "{:?}", reply.removed);
    assert!(paths(&reply).contains(&"new".to_owned()), "{:?}", paths(&reply));
    // A link to another directory in the sandbox is not followed.
    fs::create_dir_all(at("other/files")).unwrap();
    fs::remove_file(at("work")).unwrap();
    symlink(at("other"), at("work")).unwrap();
    let (reply, _) = take_snapshot(&mut agent, snapshot_request(&at("work")));
    assert!(paths(&reply).is_empty(), "{:?}", paths(&reply));
    assert_eq!(reply.removed.len(), 4, "{:?}", reply.removed);
}

#[test]
fn large_manifest_is_sent_in_pages() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let name = "n".repeat(200);
    for n in 0..6000 {
        fs::write(tree.join(format!("{name}{n:05}")), n.to_string()).unwrap();
    }
    let (reply, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!((reply.changed.len(), reply.entries, blobs.len()), (6001, 6001, 6000));
    assert!(reply.changed.is_sorted_by_key(|entry| entry.path.clone()));
    fs::remove_dir_all(&tree).unwrap();
    let (reply, _) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!((reply.changed.len(), reply.removed.len(), reply.entries), (0, 6001, 0));
}

/// For trees of a thousand entries or more, a second thread looks ahead of the walk. The result
/// must be the same as without it.
#[test]
fn snapshot_of_a_large_tree_detects_all_changes() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    for n in 0..3000 {
        let inner = at(&format!("{:02}/{:02}", n % 50, n % 20));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(format!("{n}.txt")), n.to_string()).unwrap();
    }
    let (first, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!((first.changed.len() as u64, blobs.len()), (first.entries, 3000));
    for round in 0..20 {
        // Make changes within one clock tick, in the first, middle and last directories.
        let files = ["00/00/0.txt", "25/15/1375.txt", "49/19/2999.txt"];
        for name in files {
            fs::write(at(name), format!("{round:04}")).unwrap();
        }
        let (reply, blobs) = take_snapshot(&mut agent, snapshot_request(folder.path()));
        assert_eq!(paths(&reply), files);
        assert_eq!((reply.entries, blobs.len()), (first.entries, 1));
    }
    // Swap directories, and replace others with files and links or remove them.
    fs::rename(at("10"), at("swap")).unwrap();
    fs::rename(at("11"), at("10")).unwrap();
    fs::rename(at("swap"), at("11")).unwrap();
    fs::remove_dir_all(at("12")).unwrap();
    symlink("13", at("12")).unwrap();
    fs::remove_dir_all(at("14")).unwrap();
    fs::write(at("14"), "a file").unwrap();
    fs::remove_dir_all(at("15")).unwrap();
    let mut tree: BTreeMap<_, _> =
        first.changed.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    let (reply, _) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    tree.retain(|path, _| !reply.removed.contains(path));
    tree.extend(reply.changed.into_iter().map(|entry| (entry.path.clone(), entry)));
    let (nothing, _) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!((nothing.changed.len(), nothing.removed.len()), (0, 0));
    let (fresh, _) = take_snapshot(
        &mut agent,
        SnapshotRequest { fresh: true, ..snapshot_request(folder.path()) },
    );
    for name in ["00/00/0.txt", "25/15/1375.txt", "49/19/2999.txt"] {
        tree.remove(&RawPath::from(name));
    }
    let told = fresh.changed.iter().filter(|entry| tree.contains_key(&entry.path));
    assert!(told.eq(tree.values()), "the incremental snapshots differ from a fresh one");
    assert_eq!(tree.len() + 3, fresh.changed.len());
    let (old, _) = take_snapshot(&mut agent, snapshot_request(folder.path()));
    assert_eq!((fresh.entries, old.changed.len(), old.removed.len()), (old.entries, 0, 0));
    assert!(fresh.changed.iter().all(|entry| {
        let path = at(&entry.path.to_escaped());
        let link = fs::symlink_metadata(&path).unwrap();
        let hash = link.is_file().then(|| blake3::hash(&fs::read(&path).unwrap()));
        hash.is_none_or(|hash| entry.hash.as_deref() == Some(hash.to_hex().as_str()))
    }));
}

/// A program can reset all of a file's times except its change time.
#[test]
fn changes_include_files_with_restored_content_and_times() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("d/kept")).unwrap();
    for name in ["d/kept/a", "d/written", "d/removed", "read", "marker"] {
        fs::write(at(name), "1").unwrap();
    }
    let ask = |agent: &mut Agent, root: &Path, since| {
        let request = ChangesRequest {
            root: raw_path(root),
            since,
            skip: vec![".git".into()],
            entry_limit: 1000,
        };
        match agent.ask(&Request::Changes(request)).reply {
            Ok(Reply::Snapshot(reply)) => (paths(&reply), reply.entries),
            reply => panic!("{reply:?}"),
        }
    };
    let stat = agent.ask(&Request::Stat { path: raw_path(at("marker")) }).reply;
    let Ok(Reply::Stat { found: Some(marker) }) = stat else { panic!("{stat:?}") };
    assert_eq!(ask(&mut agent, folder.path(), marker.changed), (vec![], 7));
    std::thread::sleep(std::time::Duration::from_millis(20));
    let change = "cat read; cp -p d/written keep; echo 2 > d/written; cat keep > d/written; \
                  touch -r keep d/written; rm keep d/removed";
    let line = format!("cd {} && {change}", folder.path().display());
    assert_eq!(agent.shell(&line).exited().code, Some(0));
    assert_eq!(fs::read(at("d/written")).unwrap(), b"1");
    // A directory is reported if an entry was added to it or removed from it.
    assert_eq!(
        ask(&mut agent, folder.path(), marker.changed),
        (vec!["d".into(), "d/written".into()], 6)
    );
    assert_eq!(ask(&mut agent, &at("none"), marker.changed), (vec![], 0));
}

#[test]
fn snapshot_handles_deep_trees_and_entry_limit() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    let deep = format!(
        "cd {} && python3 -c 'import os\nfor n in range(2200): os.mkdir(\"d\"); os.chdir(\"d\")\nopen(\"f\",\"w\").write(\"x\")'",
        root.display()
    );
    assert_eq!(agent.shell(&deep).exited().code, Some(0));
    let (reply, blobs) = take_snapshot(&mut agent, snapshot_request(&root));
    assert_eq!((reply.entries, blobs.len()), (2201, 1));
    // Entries that are not walked are neither changed nor removed.
    let few = SnapshotRequest { entry_limit: 100, ..snapshot_request(&root) };
    let (cut, _) = take_snapshot(&mut agent, few);
    assert_eq!((cut.entries, cut.changed.len(), cut.removed.len()), (100, 0, 0));
    assert_eq!(cut.unwalked.len(), 1);
    let remove = Request::Remove { path: raw_path(root.join("d")), beneath: None };
    assert_eq!(agent.ask(&remove).reply, Ok(Reply::Done));
    assert_eq!(take_snapshot(&mut agent, snapshot_request(&root)).0.removed.len(), 2201);
    let none = agent.ask(&Request::Snapshot(snapshot_request(&folder.path().join("none"))));
    assert_eq!(none.reply.unwrap_err().why, RefusalKind::NotFound);
}
