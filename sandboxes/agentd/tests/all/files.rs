//! Tests files, directories, search and forwarded listeners.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use proctor_wire::{
    CreateDirRequest, EntryKind, Frame, FrameKind, RawPath, RefusalKind, Reply, Request,
    SearchRequest, WriteRequest, channel,
};

use crate::support::{Agent, raw_path};

fn write_request(path: impl AsRef<Path>) -> WriteRequest {
    WriteRequest {
        owner: None,
        path: raw_path(path),
        mode: None,
        parents: true,
        beneath: None,
        symlink: false,
        append: false,
    }
}

fn read_request(path: impl AsRef<Path>, offset: u64, limit: u64) -> Request {
    Request::Read { path: raw_path(path), offset, limit }
}

fn refusal_kind(agent: &mut Agent, request: &Request, input: &[u8]) -> RefusalKind {
    match agent.ask_with(request, input).reply {
        Err(refusal) => refusal.why,
        Ok(reply) => panic!("not refused: {reply:?}"),
    }
}

#[test]
fn written_file_can_be_read_back() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a/b/c");
    let content: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    let request = Request::Write(WriteRequest { mode: Some(0o750), ..write_request(&path) });
    assert_eq!(agent.ask_with(&request, &content).reply, Ok(Reply::Done));
    let answer = agent.ask(&read_request(&path, 0, 3_000_000));
    assert_eq!(answer.reply, Ok(Reply::File { size: 3_000_000, mode: 0o750 }));
    assert!(answer.stdout == content);
    assert!(agent.ask(&read_request(&path, 2_999_990, 100)).stdout == content[2_999_990..]);
    assert_eq!(
        refusal_kind(&mut agent, &read_request(&path, 0, 2_999_999), b""),
        RefusalKind::TooLarge
    );
    // The file keeps its mode, and no temporary file is left behind.
    assert_eq!(
        agent.ask_with(&Request::Write(write_request(&path)), b"new").reply,
        Ok(Reply::Done)
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    let append = Request::Write(WriteRequest { append: true, ..write_request(&path) });
    assert_eq!(agent.ask_with(&append, b"er").reply, Ok(Reply::Done));
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    // The link stays a link, and the write goes to its target.
    let link = folder.path().join("link");
    symlink("a/b/c", &link).unwrap();
    assert_eq!(
        agent.ask_with(&Request::Write(write_request(&link)), b"by link").reply,
        Ok(Reply::Done)
    );
    assert_eq!(fs::read(&path).unwrap(), b"by link");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let answer = agent.ask(&read_request("/proc/self/status", 0, 1 << 20));
    assert!(answer.stdout.starts_with(b"Name:\tagentd"));
}

#[test]
fn requests_reject_paths_of_the_wrong_type() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    agent.shell(&format!("mkfifo {}", at("pipe").display()));
    let cases = [
        (read_request(at("none"), 0, 9), RefusalKind::NotFound),
        (read_request(folder.path(), 0, 9), RefusalKind::IsADirectory),
        (read_request(at("pipe"), 0, 9), RefusalKind::BadRequest),
        (read_request("/dev/zero", 0, 9), RefusalKind::BadRequest),
        (Request::Write(write_request(folder.path())), RefusalKind::IsADirectory),
        (Request::Write(write_request(at("pipe"))), RefusalKind::BadRequest),
        (Request::Write(write_request("/dev/null")), RefusalKind::BadRequest),
        (Request::Write(write_request("/etc/passwd/x")), RefusalKind::NotADirectory),
        (Request::Write(write_request("/proc/new")), RefusalKind::NotFound),
        (
            Request::Write(WriteRequest { parents: false, ..write_request(at("x/y")) }),
            RefusalKind::NotFound,
        ),
        (Request::List { path: raw_path(at("none")) }, RefusalKind::NotFound),
        (Request::Remove { path: "/".into(), beneath: None }, RefusalKind::BadRequest),
    ];
    for (request, why) in cases {
        assert_eq!(refusal_kind(&mut agent, &request, b"x"), why, "{request:?}");
    }
}

#[test]
fn paths_that_leave_the_folder_are_rejected() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    symlink("../out", inside.join("escape")).unwrap();
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink("../out/new", inside.join("file")).unwrap();
    symlink("sub", inside.join("fine")).unwrap();
    let beneath =
        |path: &Path| WriteRequest { beneath: Some(raw_path(&inside)), ..write_request(path) };
    for path in ["escape/x", "absolute/x", "file", "../out/x", "sub/../../out/x"] {
        for path in [inside.join(path), path.into()] {
            let request = Request::Write(beneath(&path));
            assert_eq!(refusal_kind(&mut agent, &request, b"x"), RefusalKind::Outside, "{path:?}");
            let link = Request::Write(WriteRequest { symlink: true, ..beneath(&path) });
            if !path.ends_with("file") {
                assert_eq!(refusal_kind(&mut agent, &link, b"x"), RefusalKind::Outside, "{path:?}");
            }
        }
    }
    let remove = Request::Remove {
        path: raw_path(inside.join("escape/kept")),
        beneath: Some(raw_path(&inside)),
    };
    assert_eq!(refusal_kind(&mut agent, &remove, b""), RefusalKind::Outside);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    for path in ["fine/deep/er/x", "sub/y", "./sub//../z"] {
        let request = Request::Write(beneath(&inside.join(path)));
        assert_eq!(agent.ask_with(&request, b"ok").reply, Ok(Reply::Done), "{path}");
    }
    assert_eq!(fs::read(inside.join("sub/deep/er/x")).unwrap(), b"ok");
    assert_eq!(fs::read(inside.join("z")).unwrap(), b"ok");
    // A link may have any target, because the agent never follows it out of the folder.
    let link = Request::Write(WriteRequest { symlink: true, ..beneath(&inside.join("l")) });
    assert_eq!(agent.ask_with(&link, b"/etc/passwd").reply, Ok(Reply::Done));
    assert_eq!(fs::read_link(inside.join("l")).unwrap(), Path::new("/etc/passwd"));
}

#[test]
fn cancelled_write_leaves_no_file() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let stream = agent.open_stream(&Request::Write(write_request(folder.path().join("file"))));
    agent.send(&Frame::data(stream, channel::STDIN, b"half"));
    agent.send(&Frame::new(FrameKind::Cancel, stream, []));
    assert_eq!(agent.read_until_reply(stream).reply.unwrap_err().why, RefusalKind::Cancelled);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn list_and_stat_report_entry_types() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("b"), "12345").unwrap();
    fs::create_dir(at("d")).unwrap();
    symlink("nowhere", at("c")).unwrap();
    agent.shell(&format!(
        "mkfifo {0}; touch \"$(printf '{1}/\\377')\"",
        at("a").display(),
        folder.path().display()
    ));
    let Ok(Reply::Entries { entries }) =
        agent.ask(&Request::List { path: raw_path(folder.path()) }).reply
    else {
        panic!("no entries");
    };
    let short: Vec<_> = entries.iter().map(|e| (e.name.to_escaped(), e.kind)).collect();
    let kinds =
        [EntryKind::Other, EntryKind::File, EntryKind::Link, EntryKind::Dir, EntryKind::File];
    let names = ["a", "b", "c", "d", "%FF"];
    assert_eq!(short, names.map(str::to_owned).into_iter().zip(kinds).collect::<Vec<_>>());
    assert_eq!((entries[1].size, entries[2].link.clone()), (5, Some(RawPath::from("nowhere"))));
    let mut stat = |path: &Path| agent.ask(&Request::Stat { path: raw_path(path) }).reply.unwrap();
    assert_eq!(stat(&at("none")), Reply::Stat { found: None });
    assert_eq!(stat(&at("b/x")), Reply::Stat { found: None });
    assert_eq!(stat(&at("c")), Reply::Stat { found: Some(entries[2].clone()) });
}

#[test]
fn remove_deletes_a_tree_without_following_links() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::create_dir(folder.path().join("kept")).unwrap();
    fs::write(folder.path().join("kept/file"), "x").unwrap();
    symlink("../../kept", tree.join("a/link")).unwrap();
    for n in 0..300 {
        fs::write(tree.join(format!("a/b/{n}")), "x").unwrap();
    }
    // Create a tree that is deeper than the longest path a program can name.
    let deep = format!(
        "cd {} && python3 -c 'import os\nfor n in range(1500): os.mkdir(\"dd\"); os.chdir(\"dd\")'",
        tree.display()
    );
    assert_eq!(agent.shell(&deep).exited().code, Some(0));
    let remove = Request::Remove { path: raw_path(&tree), beneath: Some(raw_path(folder.path())) };
    assert_eq!(agent.ask(&remove).reply, Ok(Reply::Done));
    assert!(!tree.exists() && folder.path().join("kept/file").exists());
    assert_eq!(agent.ask(&remove).reply, Ok(Reply::Done), "removing a missing path must succeed");
}

#[test]
fn search_honours_ignore_files_and_limits() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    for name in ["src", ".git", "build"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at(".gitignore"), "build/\n").unwrap();
    fs::write(at("src/a.py"), "def alpha():\n    return 'needle'\n").unwrap();
    fs::write(at("src/b.txt"), format!("Needle {}\nneedle\n", "x".repeat(9000))).unwrap();
    fs::write(at("build/c.py"), "needle\n").unwrap();
    fs::write(at(".git/d.py"), "needle\n").unwrap();
    fs::write(at("e.bin"), b"needle\0needle\n").unwrap();
    agent.shell(&format!("mkfifo {}", at("pipe").display()));
    let base = SearchRequest {
        root: raw_path(folder.path()),
        pattern: Some("needle".into()),
        glob: None,
        ignore_case: false,
        honour_ignore: true,
        limit: 100,
    };
    let mut ask = |request: SearchRequest| match agent.ask(&Request::Search(request)).reply {
        Ok(Reply::Matches { matches, more }) => {
            let short = |m: &proctor_wire::Match| format!("{}:{}", m.path, m.line);
            Ok((matches.iter().map(short).collect::<Vec<_>>(), more, matches))
        }
        Err(refusal) => Err(refusal.why),
        other => panic!("{other:?}"),
    };
    let (found, more, matches) = ask(base.clone()).unwrap();
    assert_eq!((found, more), (vec!["src/a.py:2".to_owned(), "src/b.txt:2".to_owned()], false));
    assert_eq!(matches[0].text, "    return 'needle'");
    let (found, _, matches) = ask(SearchRequest { ignore_case: true, ..base.clone() }).unwrap();
    assert_eq!(found.len(), 3);
    assert!(matches[1].text.len() < 600);
    let (found, more, _) = ask(SearchRequest { limit: 1, ..base.clone() }).unwrap();
    assert_eq!((found.len(), more), (1, true));
    let request = SearchRequest { honour_ignore: false, glob: Some("*.py".into()), ..base.clone() };
    assert_eq!(ask(request).unwrap().0, ["build/c.py:1", "src/a.py:2"]);
    let request = SearchRequest { pattern: None, glob: Some("src/*".into()), ..base.clone() };
    assert_eq!(ask(request).unwrap().0, ["src/a.py:0", "src/b.txt:0"]);
    let request = SearchRequest { root: raw_path(at("src/a.py")), ..base.clone() };
    assert_eq!(ask(request).unwrap().0, ["a.py:2"]);
    let bad = SearchRequest { pattern: Some("(".into()), ..base.clone() };
    assert_eq!(ask(bad).unwrap_err(), RefusalKind::BadRequest);
    let none = SearchRequest { root: raw_path(at("none")), ..base };
    assert_eq!(ask(none).unwrap_err(), RefusalKind::NotFound);
}

#[test]
fn accepted_connection_is_forwarded_as_a_stream() {
    let mut agent = Agent::start();
    let Ok(Reply::Listening { port }) = agent.ask(&Request::Listen { port: 0 }).reply else {
        panic!("not listening");
    };
    let mut inside = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (stream, accepted) = agent.next_accepted();
    assert_eq!((stream % 2, accepted.port), (1, port));
    inside.write_all(b"question").unwrap();
    inside.shutdown(Shutdown::Write).unwrap();
    assert_eq!(agent.next_frame(stream).body, b"\x01question");
    assert_eq!((agent.next_frame(stream).kind, FrameKind::End), (FrameKind::End, FrameKind::End));
    agent.send(&Frame::data(stream, channel::STDIN, b"answer"));
    agent.send(&Frame::new(FrameKind::End, stream, [channel::STDIN]));
    let mut heard = String::new();
    inside.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "answer");
    assert_eq!(agent.read_until_reply(stream).reply, Ok(Reply::Done));
    let taken = agent.ask(&Request::Listen { port });
    assert_eq!(taken.reply.unwrap_err().why, RefusalKind::Io);
}

#[test]
fn write_keeps_the_owner_of_a_file() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    // If this user lacks the privilege, the owner remains this user.
    let _ = std::os::unix::fs::chown(&path, Some(12345), Some(54321));
    let before = fs::metadata(&path).unwrap();
    assert_eq!(
        agent.ask_with(&Request::Write(write_request(&path)), b"new").reply,
        Ok(Reply::Done)
    );
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
}

#[test]
fn folder_creates_or_sets_mode_and_rejects_links() {
    let (mut agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let outside = tempfile::tempdir().unwrap();
    let root = raw_path(folder.path());
    let mut ask = |name: &str, mode| {
        let path = raw_path(folder.path().join(name));
        let beneath = Some(root.clone());
        agent.ask(&Request::Folder(CreateDirRequest { path, mode, beneath, owner: None })).reply
    };
    let mode =
        |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(ask("a/b", 0o2710), Ok(Reply::Done));
    assert_eq!(mode("a/b"), 0o2710, "the umask must not matter");
    assert_eq!(ask("a/b", 0o500), Ok(Reply::Done));
    assert_eq!(mode("a/b"), 0o500);
    symlink(outside.path(), folder.path().join("link")).unwrap();
    assert!(ask("link", 0o700).is_err());
    assert!(ask("link/x", 0o700).is_err());
    assert!(!outside.path().join("x").exists());
}
