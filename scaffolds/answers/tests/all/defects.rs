//! Answers that FEA-Bench's own code drops or corrupts.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use proctor_answers::{Applied, Matching, Status, apply, natural};

const FILE: u32 = 0o100_644;

fn pair(file: &str, before: &str, after: &str) -> String {
    format!(
        "<edit>\n[start of the snippet before editing in {file}]\n{before}[end of the snippet before editing in {file}]\n\n\
         [start of the snippet after editing in {file}]\n{after}[end of the snippet after editing in {file}]\n</edit>\n"
    )
}

/// Applies an answer to a set of files.
fn answer(files: &[(&str, &str)], answer: &str, matching: Matching) -> Applied {
    let current = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path)?;
        Some((FILE, found.1.as_bytes().to_vec()))
    };
    apply(&natural::read(answer).edits, matching, &current)
}

fn text(applied: &Applied, file: &str) -> String {
    String::from_utf8(applied.files[file].as_ref().unwrap().1.clone()).unwrap()
}

fn status(applied: &Applied) -> Vec<Status> {
    applied.edits.iter().map(|edit| edit.status.clone()).collect()
}

#[test]
fn edit_that_only_appends_or_truncates_is_applied() {
    let file = [("a.py", "x = 1\ny = 2\n")];
    let grown = answer(&file, &pair("a.py", "y = 2\n", "y = 2\nz = 3\n"), Matching::Exact);
    assert_eq!(text(&grown, "a.py"), "x = 1\ny = 2\nz = 3\n");
    let cut = answer(&file, &pair("a.py", "x = 1\ny = 2\n", "x = 1\n"), Matching::Exact);
    assert_eq!(text(&cut, "a.py"), "x = 1\n");
    let before = answer(&file, &pair("a.py", "x = 1\n", "w = 0\nx = 1\n"), Matching::Exact);
    assert_eq!(text(&before, "a.py"), "w = 0\nx = 1\ny = 2\n");
}

#[test]
fn edit_of_empty_file_fills_it() {
    let filled =
        answer(&[("p/__init__.py", "")], &pair("p/__init__.py", "", "x = 1\n"), Matching::Exact);
    assert_eq!(status(&filled), [Status::Applied]);
    assert_eq!(text(&filled, "p/__init__.py"), "x = 1\n");
    let made = answer(&[], &pair("p/new.py", "", ""), Matching::Exact);
    assert_eq!(text(&made, "p/new.py"), "");
}

#[test]
fn missing_final_newline_is_kept_unless_the_answer_changes_it() {
    let file = [("a.py", "x = 1\ny = 2")];
    let kept = answer(&file, &pair("a.py", "x = 1\n", "x = 5\n"), Matching::Exact);
    assert_eq!(text(&kept, "a.py"), "x = 5\ny = 2");
    let grown = answer(&file, &pair("a.py", "y = 2\n", "y = 2\nz = 3\n"), Matching::Exact);
    assert_eq!(text(&grown, "a.py"), "x = 1\ny = 2\nz = 3");
    let said = "y = 2\n\\ No newline at end of file\n";
    let ended = answer(&file, &pair("a.py", said, "y = 2\n"), Matching::Exact);
    assert_eq!(text(&ended, "a.py"), "x = 1\ny = 2\n");
    let inside = answer(
        &[("a.py", "x\ny\n")],
        &pair("a.py", "x\n", "x\n\\ No newline at end of file\n"),
        Matching::Exact,
    );
    assert_eq!(status(&inside), [Status::NoMatch]);
}

#[test]
fn form_feed_does_not_end_a_line_and_carriage_returns_are_kept() {
    let feed = answer(&[("a.py", "a\x0cb\nc\n")], &pair("a.py", "c\n", "d\n"), Matching::Exact);
    assert_eq!(text(&feed, "a.py"), "a\x0cb\nd\n");
    let dos = answer(&[("a.py", "a\r\nb\r\n")], &pair("a.py", "b\n", "b\nc\n"), Matching::Exact);
    assert_eq!(text(&dos, "a.py"), "a\r\nb\r\nc\r\n");
}

#[test]
fn files_with_test_like_names_are_edited() {
    for path in ["checkpointing.py", "contest/latest.py", "p/check.py"] {
        let edited = answer(&[(path, "a\n")], &pair(path, "a\n", "b\n"), Matching::Exact);
        assert_eq!(text(&edited, path), "b\n");
    }
}

#[test]
fn edit_with_two_file_names_does_not_affect_other_edits() {
    let mixed =
        pair("a.py", "a\n", "b\n").replacen("a.py", "c.py", 2) + &pair("a.py", "a\n", "b\n");
    let read = natural::read(&mixed);
    assert_eq!((read.edits.len(), read.problems.len()), (1, 1));
    let applied = answer(&[("a.py", "a\n")], &mixed, Matching::Exact);
    assert_eq!(text(&applied, "a.py"), "b\n");
}

#[test]
fn snippet_must_match_exactly_and_once() {
    let file = [("a.py", "a\nb \na\n")];
    let one = |before: &str, matching| {
        status(&answer(&file, &pair("a.py", before, "z\n"), matching)).remove(0)
    };
    assert_eq!(one("a\n", Matching::Exact), Status::Ambiguous { times: 2 });
    assert_eq!(one("b\n", Matching::Exact), Status::NoMatch);
    assert_eq!(one("\nb\n\n", Matching::Exact), Status::NoMatch);
    assert_eq!(one("\nb\n\n", Matching::Reference), Status::Applied);
    assert_eq!(one("", Matching::Exact), Status::NotEmpty);
    let elsewhere = answer(&file, &pair("b.py", "a\n", "z\n"), Matching::Exact);
    assert_eq!(status(&elsewhere), [Status::NoFile]);
    let outside = answer(&file, &pair("../b.py", "", "z\n"), Matching::Exact);
    assert_eq!(status(&outside), [Status::ForbiddenPath]);
    let same = answer(&file, &pair("a.py", "b \n", "b \n"), Matching::Exact);
    assert_eq!(status(&same), [Status::NoDifference]);
    let named = answer(&file, &pair("a/a.py", "b \n", "c\n"), Matching::Reference);
    assert_eq!(text(&named, "a.py"), "a\nc\na\n");
}

#[test]
fn edits_of_one_file_may_share_context_but_not_changed_lines() {
    let file = [("a.py", "1\n2\n3\n4\n5\n")];
    let two = pair("a.py", "1\n2\n3\n", "1\ntwo\n3\n") + &pair("a.py", "3\n4\n5\n", "3\nfour\n5\n");
    assert_eq!(text(&answer(&file, &two, Matching::Exact), "a.py"), "1\ntwo\n3\nfour\n5\n");
    let both = pair("a.py", "2\n", "two\n") + &pair("a.py", "1\n2\n", "1\nTWO\n");
    let applied = answer(&file, &both, Matching::Exact);
    assert_eq!(status(&applied), [Status::Applied, Status::Overlap]);
    assert_eq!(text(&applied, "a.py"), "1\ntwo\n3\n4\n5\n");
    let ends = pair("a.py", "5\n", "5\n6\n") + &pair("a.py", "4\n5\n", "4\n5\n7\n");
    assert_eq!(text(&answer(&file, &ends, Matching::Exact), "a.py"), "1\n2\n3\n4\n5\n6\n7\n");
}
