//! Tests answers that FEA-Bench's own code drops or corrupts.
#![expect(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use proctor_answers::{ApplyOutcome, EditResult, MatchMode, apply, natural};

const FILE_MODE: u32 = 0o100_644;

fn edit_block(file: &str, old_text: &str, new_text: &str) -> String {
    format!(
        "<edit>\n[start of the snippet before editing in {file}]\n{old_text}[end of the snippet before editing in {file}]\n\n\
         [start of the snippet after editing in {file}]\n{new_text}[end of the snippet after editing in {file}]\n</edit>\n"
    )
}

/// Applies an answer to a set of files.
fn apply_answer(files: &[(&str, &str)], answer: &str, match_mode: MatchMode) -> ApplyOutcome {
    let current = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path)?;
        Some((FILE_MODE, found.1.as_bytes().to_vec()))
    };
    apply(&natural::parse_answer(answer).edits, match_mode, &current)
}

fn changed_text(outcome: &ApplyOutcome, file: &str) -> String {
    String::from_utf8(outcome.files[file].as_ref().unwrap().1.clone()).unwrap()
}

fn edit_statuses(outcome: &ApplyOutcome) -> Vec<EditResult> {
    outcome.edits.iter().map(|edit| edit.status.clone()).collect()
}

#[test]
fn edit_that_only_appends_or_truncates_is_applied() {
    let file = [("a.py", "x = 1\ny = 2\n")];
    let grown =
        apply_answer(&file, &edit_block("a.py", "y = 2\n", "y = 2\nz = 3\n"), MatchMode::Exact);
    assert_eq!(changed_text(&grown, "a.py"), "x = 1\ny = 2\nz = 3\n");
    let cut =
        apply_answer(&file, &edit_block("a.py", "x = 1\ny = 2\n", "x = 1\n"), MatchMode::Exact);
    assert_eq!(changed_text(&cut, "a.py"), "x = 1\n");
    let before =
        apply_answer(&file, &edit_block("a.py", "x = 1\n", "w = 0\nx = 1\n"), MatchMode::Exact);
    assert_eq!(changed_text(&before, "a.py"), "w = 0\nx = 1\ny = 2\n");
}

#[test]
fn edit_of_empty_file_fills_it() {
    let filled = apply_answer(
        &[("p/__init__.py", "")],
        &edit_block("p/__init__.py", "", "x = 1\n"),
        MatchMode::Exact,
    );
    assert_eq!(edit_statuses(&filled), [EditResult::Applied]);
    assert_eq!(changed_text(&filled, "p/__init__.py"), "x = 1\n");
    let made = apply_answer(&[], &edit_block("p/new.py", "", ""), MatchMode::Exact);
    assert_eq!(changed_text(&made, "p/new.py"), "");
}

#[test]
fn missing_final_newline_is_kept_unless_the_answer_changes_it() {
    let file = [("a.py", "x = 1\ny = 2")];
    let kept = apply_answer(&file, &edit_block("a.py", "x = 1\n", "x = 5\n"), MatchMode::Exact);
    assert_eq!(changed_text(&kept, "a.py"), "x = 5\ny = 2");
    let grown =
        apply_answer(&file, &edit_block("a.py", "y = 2\n", "y = 2\nz = 3\n"), MatchMode::Exact);
    assert_eq!(changed_text(&grown, "a.py"), "x = 1\ny = 2\nz = 3");
    let said = "y = 2\n\\ No newline at end of file\n";
    let ended = apply_answer(&file, &edit_block("a.py", said, "y = 2\n"), MatchMode::Exact);
    assert_eq!(changed_text(&ended, "a.py"), "x = 1\ny = 2\n");
    let inside = apply_answer(
        &[("a.py", "x\ny\n")],
        &edit_block("a.py", "x\n", "x\n\\ No newline at end of file\n"),
        MatchMode::Exact,
    );
    assert_eq!(edit_statuses(&inside), [EditResult::NoMatch]);
}

#[test]
fn form_feed_does_not_end_a_line_and_carriage_returns_are_kept() {
    let feed = apply_answer(
        &[("a.py", "a\x0cb\nc\n")],
        &edit_block("a.py", "c\n", "d\n"),
        MatchMode::Exact,
    );
    assert_eq!(changed_text(&feed, "a.py"), "a\x0cb\nd\n");
    let dos = apply_answer(
        &[("a.py", "a\r\nb\r\n")],
        &edit_block("a.py", "b\n", "b\nc\n"),
        MatchMode::Exact,
    );
    assert_eq!(changed_text(&dos, "a.py"), "a\r\nb\r\nc\r\n");
}

#[test]
fn files_with_test_like_names_are_edited() {
    for path in ["checkpointing.py", "contest/latest.py", "p/check.py"] {
        let edited =
            apply_answer(&[(path, "a\n")], &edit_block(path, "a\n", "b\n"), MatchMode::Exact);
        assert_eq!(changed_text(&edited, path), "b\n");
    }
}

#[test]
fn edit_with_two_file_names_does_not_affect_other_edits() {
    let mixed = edit_block("a.py", "a\n", "b\n").replacen("a.py", "c.py", 2)
        + &edit_block("a.py", "a\n", "b\n");
    let read = natural::parse_answer(&mixed);
    assert_eq!((read.edits.len(), read.problems.len()), (1, 1));
    let applied = apply_answer(&[("a.py", "a\n")], &mixed, MatchMode::Exact);
    assert_eq!(changed_text(&applied, "a.py"), "b\n");
}

#[test]
fn snippet_must_match_exactly_and_once() {
    let file = [("a.py", "a\nb \na\n")];
    let one = |before: &str, matching| {
        edit_statuses(&apply_answer(&file, &edit_block("a.py", before, "z\n"), matching)).remove(0)
    };
    assert_eq!(one("a\n", MatchMode::Exact), EditResult::Ambiguous { times: 2 });
    assert_eq!(one("b\n", MatchMode::Exact), EditResult::NoMatch);
    assert_eq!(one("\nb\n\n", MatchMode::Exact), EditResult::NoMatch);
    assert_eq!(one("\nb\n\n", MatchMode::Reference), EditResult::Applied);
    assert_eq!(one("", MatchMode::Exact), EditResult::NotEmpty);
    let elsewhere = apply_answer(&file, &edit_block("b.py", "a\n", "z\n"), MatchMode::Exact);
    assert_eq!(edit_statuses(&elsewhere), [EditResult::NoFile]);
    let outside = apply_answer(&file, &edit_block("../b.py", "", "z\n"), MatchMode::Exact);
    assert_eq!(edit_statuses(&outside), [EditResult::ForbiddenPath]);
    let same = apply_answer(&file, &edit_block("a.py", "b \n", "b \n"), MatchMode::Exact);
    assert_eq!(edit_statuses(&same), [EditResult::NoDifference]);
    let named = apply_answer(&file, &edit_block("a/a.py", "b \n", "c\n"), MatchMode::Reference);
    assert_eq!(changed_text(&named, "a.py"), "a\nc\na\n");
}

#[test]
fn edits_of_one_file_may_share_context_but_not_changed_lines() {
    let file = [("a.py", "1\n2\n3\n4\n5\n")];
    let two = edit_block("a.py", "1\n2\n3\n", "1\ntwo\n3\n")
        + &edit_block("a.py", "3\n4\n5\n", "3\nfour\n5\n");
    assert_eq!(
        changed_text(&apply_answer(&file, &two, MatchMode::Exact), "a.py"),
        "1\ntwo\n3\nfour\n5\n"
    );
    let both = edit_block("a.py", "2\n", "two\n") + &edit_block("a.py", "1\n2\n", "1\nTWO\n");
    let applied = apply_answer(&file, &both, MatchMode::Exact);
    assert_eq!(edit_statuses(&applied), [EditResult::Applied, EditResult::Overlap]);
    assert_eq!(changed_text(&applied, "a.py"), "1\ntwo\n3\n4\n5\n");
    let ends = edit_block("a.py", "5\n", "5\n6\n") + &edit_block("a.py", "4\n5\n", "4\n5\n7\n");
    assert_eq!(
        changed_text(&apply_answer(&file, &ends, MatchMode::Exact), "a.py"),
        "1\n2\n3\n4\n5\n6\n7\n"
    );
}
