//! Tests patches against real Git. Git applies Proctor's patches, Proctor applies Git's patches,
//! and both reject the same patches.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use proctor_patch::Patch;
use proctor_record::{Blobs, PatchPolicy, collect_patch};
use proptest::prelude::*;

use crate::common::{Node, Nodes, file, git, resolve_on, tree_from_nodes};

/// A name that contains every character that needs quoting.
const ODD_NAME: &[u8] = b"d/o\"d\\d \xc3\xa9\xff\t.txt";

fn nodes(entries: &[(&[u8], Node)]) -> Nodes {
    entries.iter().map(|(path, node)| (path.to_vec(), node.clone())).collect()
}

fn symlink_node(target: &str) -> Node {
    Node::Link(target.as_bytes().to_vec())
}

/// Transforms `base` into `end` in three ways: Git applies Proctor's patch, Proctor applies its own
/// patch, and Proctor applies Git's patch. Then both transform `end` back into `base` with the
/// reversed patch.
fn round_trip(base: &Nodes, end: &Nodes) {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::new(folder.path().join("blobs"));
    let policy =
        PatchPolicy { never: vec![], new: vec![], ..PatchPolicy::shipped().unwrap().clone() };
    let made = collect_patch(
        &tree_from_nodes(base, &blobs),
        &tree_from_nodes(end, &blobs),
        &blobs,
        &policy,
    )
    .unwrap();
    assert_eq!(made.omitted_paths, vec![]);
    let patch = made.bytes;
    let shown = String::from_utf8_lossy(&patch).into_owned();

    assert_eq!(&git::apply(base, &patch).unwrap_or_else(|why| panic!("{why}\n{shown}")), end);
    assert_eq!(&resolve_on(base, &patch).unwrap_or_else(|why| panic!("{why}\n{shown}")), end);
    let back = Patch::parse(&patch).reverse().unwrap().to_bytes();
    let shown = String::from_utf8_lossy(&back).into_owned();
    assert_eq!(&git::apply(end, &back).unwrap_or_else(|why| panic!("{why}\n{shown}")), base);
    assert_eq!(&resolve_on(end, &back).unwrap_or_else(|why| panic!("{why}\n{shown}")), base);

    for arguments in [&["--no-renames"][..], &["-M", "-C", "--find-copies-harder"]] {
        let theirs = git::diff(base, end, arguments);
        let shown = String::from_utf8_lossy(&theirs).into_owned();
        let after = resolve_on(base, &theirs).unwrap_or_else(|why| panic!("{why}\n{shown}"));
        assert_eq!(&after, end, "{shown}");
        if arguments == ["--no-renames"] {
            let back = Patch::parse(&theirs).reverse().unwrap().to_bytes();
            assert_eq!(&resolve_on(end, &back).unwrap(), base, "{shown}");
        }
    }
}

#[test]
fn patch_round_trips_through_git_for_every_change() {
    let big: Vec<u8> = (0..200u32).flat_map(|at| format!("line {at}\n").into_bytes()).collect();
    let binary: Vec<u8> = (0..5000u32).map(|at| (at * at / 7) as u8).collect();
    let mut binary_after = binary.clone();
    binary_after[2500] ^= 0xff;
    let big_after = String::from_utf8(big.clone()).unwrap().replace("line 70\n", "seventy\n");
    let base = nodes(&[
        (b"same", file("same\n")),
        (b"a b/text", Node::File(big, false)),
        (b"gone/deep/file", file("x\n")),
        (b"empty gone", file("")),
        (b"crlf", file("a\r\nb\r\nc\r\n")),
        (b"no newline", file("a\nb")),
        (b"newline", file("a\nb\n")),
        (b"run", file("#!/bin/sh\n")),
        (b"binary", Node::File(binary, false)),
        (b"binary gone", Node::File(vec![0; 40], false)),
        (b"link", symlink_node("same")),
        (b"link becomes file", symlink_node("same")),
        (b"file becomes link", file("words\n")),
        (b"file becomes folder", file("words\n")),
        (b"folder becomes file/x", file("words\n")),
        (ODD_NAME, file("odd\n")),
    ]);
    let end = nodes(&[
        (b"same", file("same\n")),
        (b"a b/text", file(&big_after)),
        (b"crlf", file("a\r\nB\r\nc\r\n")),
        (b"no newline", file("a\nb\n")),
        (b"newline", file("a\nb")),
        (b"run", Node::File(b"#!/bin/sh\n".to_vec(), true)),
        (b"binary", Node::File(binary_after, true)),
        (b"new binary", Node::File(vec![0, 1, 2], false)),
        (b"link", symlink_node("no such thing")),
        (b"link becomes file", file("same")),
        (b"file becomes link", symlink_node("words")),
        (b"file becomes folder/x", file("words\n")),
        (b"folder becomes file", file("words\n")),
        (b"new empty", file("")),
        (b"new executable", Node::File(vec![], true)),
        (ODD_NAME, file("odder\n")),
        (b"\xe6\xbc\xa2", file("new\n")),
    ]);
    round_trip(&base, &end);
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        8 => "[ab]{0,2}".prop_map(String::into_bytes),
        1 => Just(b"--- a/x".to_vec()),
        1 => Just(b"-- x".to_vec()),
        1 => Just(b"\\ No newline".to_vec()),
        1 => Just(b"diff --git a/x b/x".to_vec()),
        1 => Just(b"\xff\r".to_vec()),
    ];
    let text = (prop::collection::vec(line, 0..24), any::<bool>()).prop_map(|(lines, ended)| {
        let mut bytes = lines.join(&b"\n"[..]);
        if ended && !bytes.is_empty() {
            bytes.push(b'\n');
        }
        bytes
    });
    prop_oneof![9 => text, 1 => prop::collection::vec(0u8..3, 0..70)]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        6 => (content(), any::<bool>()).prop_map(|(bytes, run)| Node::File(bytes, run)),
        // No link points to itself, because Git fails if a directory is replaced with such a link.
        1 => "[x-z]{1,3}".prop_map(|target| Node::Link(target.into_bytes())),
    ]
}

/// Generates trees. They use few names, so that two trees often contain the same file with
/// different contents, or a file and a directory with the same name.
fn arbitrary_nodes() -> impl Strategy<Value = Nodes> {
    let name = prop_oneof![
        Just(b"a".to_vec()),
        Just(b"b".to_vec()),
        Just(b"a/b".to_vec()),
        Just(b"c d".to_vec()),
        Just("é".as_bytes().to_vec()),
        Just(b"q\"\n".to_vec()),
    ];
    prop::collection::btree_map(name, node(), 0..5).prop_map(|mut nodes| {
        if nodes.contains_key(&b"a"[..]) {
            nodes.remove(&b"a/b"[..]);
        }
        nodes
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn patch_round_trips_through_git_for_any_trees(base in arbitrary_nodes(), end in arbitrary_nodes()) {
        round_trip(&base, &end);
    }

    /// If a hunk's context has moved, Proctor applies the hunk where Git does, or rejects it if Git
    /// does.
    #[test]
    fn drifted_patch_applies_where_git_applies_it(
        old in content(), new in content(), head in content(), tail in content()
    ) {
        prop_assume!([&old, &new, &head, &tail].iter().all(|text| !text.contains(&0)));
        let one = |bytes: Vec<u8>| nodes(&[(b"x", Node::File(bytes, false))]);
        let patch = git::diff(&one(old.clone()), &one(new), &[]);
        let drifted = one([head, old, tail].concat());
        let theirs = git::apply(&drifted, &patch);
        let ours = resolve_on(&drifted, &patch);
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => prop_assert_eq!(ours, theirs),
            (Err(_), Err(_)) => {}
            (theirs, ours) => prop_assert!(
                false, "git: {:?}\nours: {:?}\n{}", theirs, ours, String::from_utf8_lossy(&patch)
            ),
        }
    }
}
