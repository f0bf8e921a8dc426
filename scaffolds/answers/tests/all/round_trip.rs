//! Tests that a change is the same after it is written as a natural answer, parsed and applied.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use proctor_answers::{EditResult, FileState, MatchMode, apply, natural};
use proptest::prelude::*;

use crate::{not_run::not_run, tier::is_full};

type Tree = BTreeMap<String, (u32, Vec<u8>)>;
type Changes = BTreeMap<String, (FileState, FileState)>;

fn changes_between(old_tree: &Tree, new_tree: &Tree) -> Changes {
    let names = old_tree.keys().chain(new_tree.keys());
    names
        .map(|name| (name.clone(), (old_tree.get(name).cloned(), new_tree.get(name).cloned())))
        .collect()
}

/// Writes the change as an answer, then parses and applies the answer. Returns an error if the
/// format cannot express the change.
fn check_round_trip(sides: &Changes) -> Result<(), String> {
    let answer = natural::format_answer(sides).map_err(|error| error.to_string())?;
    let read = natural::parse_answer(&answer);
    assert!(read.problems.is_empty(), "{:?}\n{answer}", read.problems);
    let current = |path: &str| sides.get(path).and_then(|(before, _)| before.clone());
    let applied = apply(&read.edits, MatchMode::Exact, &current);
    let failed = applied.edits.iter().find(|edit| edit.status != EditResult::Applied);
    assert!(failed.is_none(), "{failed:?}\n{answer}");
    for (path, (before, after)) in sides {
        let now = applied.files.get(path).unwrap_or(before);
        assert_eq!(now, after, "{path}\n{answer}");
    }
    Ok(())
}

/// Generates content from a few distinct lines, so that files contain repeated sections.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line =
        prop::sample::select(vec!["", "a", "b", "    return x", "\x0c", "```", "\ta ", "é", "a\r"]);
    let lines = prop::collection::vec(line, 0..14);
    (lines, prop::sample::select(vec!["\n", "\r\n"]), any::<bool>()).prop_map(
        |(lines, end, ended)| {
            let mut text = lines.join(end);
            if ended && !lines.is_empty() {
                text.push_str(end);
            }
            text.into_bytes()
        },
    )
}

fn tree() -> impl Strategy<Value = Tree> {
    let mode = prop::sample::select(vec![0o100_644, 0o100_755]);
    let name = prop::sample::select(vec!["a.py", "p/b.py", "p/c d.py", "b/x.py"]);
    prop::collection::btree_map(name.prop_map(str::to_owned), (mode, content()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn natural_round_trips_any_change(before in tree(), after in tree()) {
        check_round_trip(&changes_between(&before, &after)).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Returns the path of this repository, or of the clone in `PROCTOR_CLONE`.
fn repository_path() -> PathBuf {
    std::env::var_os("PROCTOR_CLONE")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn git(args: &[&str]) -> Vec<u8> {
    let output = Command::new("git").args(args).current_dir(repository_path()).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns a commit's change to each file, without files that are not regular files.
fn commit_changes(commit: &str) -> Changes {
    let raw = git(&["diff-tree", "-r", "-z", "--root", "--no-commit-id", "--no-renames", commit]);
    let raw = String::from_utf8(raw).unwrap();
    let mut fields = raw.split('\0');
    let mut sides = Changes::new();
    while let (Some(header), Some(path)) = (fields.next(), fields.next()) {
        let words: Vec<&str> = header.trim_start_matches(':').split(' ').collect();
        let side = |mode: &str, id: &str| {
            let mode = u32::from_str_radix(mode, 8).unwrap();
            (mode != 0).then(|| (mode, git(&["cat-file", "blob", id])))
        };
        sides.insert(path.to_owned(), (side(words[0], words[2]), side(words[1], words[3])));
    }
    sides
}

/// Checks the newest 25 commits of a clone, or the newest 500 in the full tier. `PROCTOR_COMMITS`
/// overrides the number.
#[test]
fn natural_round_trips_real_commits() {
    let default = if is_full() { "500" } else { "25" };
    let wanted = std::env::var("PROCTOR_COMMITS").unwrap_or_else(|_| default.to_owned());
    let inside = Command::new("git")
        .args(["rev-parse", "--git-dir"])
        .current_dir(repository_path())
        .output();
    if !inside.is_ok_and(|output| output.status.success()) {
        not_run("natural_round_trips_real_commits", "CLONE", "not a Git clone");
        return;
    }
    let commits =
        String::from_utf8(git(&["rev-list", "--no-merges", "-n", &wanted, "HEAD"])).unwrap();
    let (mut files, mut unsaid) = (0, Vec::new());
    let mut count = 0;
    for commit in commits.lines() {
        count += 1;
        for (path, sides) in commit_changes(commit) {
            match check_round_trip(&BTreeMap::from([(path, sides)])) {
                Ok(()) => files += 1,
                Err(why) => unsaid.push(why),
            }
        }
    }
    eprintln!(
        "{count} commits, {files} files round-tripped; {} files cannot be expressed: {unsaid:?}",
        unsaid.len()
    );
    assert!(files > 0);
    // The format may reject only changes that the grammar excludes.
    let known = ["bytes that are not UTF-8", "a link", "looks like a marker"];
    assert!(unsaid.iter().all(|why| known.iter().any(|known| why.contains(known))), "{unsaid:?}");
}
