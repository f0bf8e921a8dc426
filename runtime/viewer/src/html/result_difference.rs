//! Describes how the results of a task's trials differ: their failed tests, their patches, and the
//! first edit that is not the same.

use std::collections::BTreeSet;

use super::{TrialColumn, TrialName, sentence::Sentence};

/// Maximum number of tests and of files that a sentence names.
const MAX_NAMED: usize = 3;

/// A changed file's path, and the file's part of the patch.
pub type FilePatch = (String, String);

/// The part of a trial's result that decides whether the task is resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedResult {
    /// The expected tests that did not pass. `None` without a verdict.
    pub failed_tests: Option<Vec<String>>,
    /// The changed files. `None` if no patch was collected.
    pub patch: Option<Vec<FilePatch>>,
    /// The files of the task's gold patch. `None` if the task has none.
    pub reference_patch: Option<Vec<FilePatch>>,
    /// The first step whose edit differs from the other trials' edit with the same number. `None` if
    /// the trial makes no such edit.
    pub different_edit: Option<u64>,
}

/// Returns the groups of equal values, each as a list of indexes. Groups are in the order of their
/// first value.
pub(crate) fn equal_groups<T: PartialEq>(values: &[T]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, value) in values.iter().enumerate() {
        match groups.iter_mut().find(|group| values[group[0]] == *value) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// Says which trials are equal and which differ: `a = c; b differs`.
pub(crate) fn describe_groups(names: &[&TrialName], groups: &[Vec<usize>]) -> Sentence {
    let largest = groups.iter().map(Vec::len).max().unwrap_or_default();
    if largest < 2 {
        return Sentence::from_text("all differ");
    }
    let mut sentence = Sentence::default();
    let (equal, single): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.len() > 1);
    for group in equal {
        if !sentence.is_empty() {
            sentence = sentence.text("; ");
        }
        let members = group.iter().filter_map(|index| Some((*names.get(*index)?, String::new())));
        sentence = sentence.names(members, " = ");
    }
    for group in single {
        let member = group.iter().filter_map(|index| names.get(*index));
        sentence =
            member.fold(sentence, |so_far, name| so_far.text("; ").name(name).text(" differs"));
    }
    sentence
}

/// Describes the results, one sentence for each part that at least two trials have.
pub(crate) fn describe_results(sides: &[TrialColumn]) -> Vec<Sentence> {
    [describe_tests(sides), describe_patches(sides), describe_edits(sides)]
        .into_iter()
        .flatten()
        .collect()
}

fn describe_tests(sides: &[TrialColumn]) -> Option<Sentence> {
    let graded: Vec<(&TrialName, BTreeSet<&str>)> = sides
        .iter()
        .filter_map(|side| {
            let failed = side.result.failed_tests.as_ref()?;
            Some((&side.name, failed.iter().map(String::as_str).collect()))
        })
        .collect();
    let [(_, first), others @ ..] = graded.as_slice() else { return None };
    if others.is_empty() {
        return None;
    }
    let all: BTreeSet<&str> =
        graded.iter().flat_map(|(_, failed)| failed.iter().copied()).collect();
    let is_different = |test: &&str| {
        graded.iter().any(|(_, failed)| failed.contains(test) != first.contains(test))
    };
    let different: Vec<&str> = all.iter().copied().filter(is_different).collect();
    if different.is_empty() {
        return Some(Sentence::from_text(match first.len() {
            0 => "All tests pass in each trial.".to_owned(),
            1 => "The same test fails in each trial.".to_owned(),
            count => format!("The same {count} tests fail in each trial."),
        }));
    }
    let mut sentence = Sentence::from_text(match different.len() {
        1 => "1 test has a different result: ".to_owned(),
        count => format!("{count} tests have different results: "),
    });
    for (index, test) in different.iter().take(MAX_NAMED).enumerate() {
        let name = test.rsplit("::").next().unwrap_or(test);
        let separator = if index > 0 { "; " } else { "" };
        let failing = graded.iter().filter(|(_, failed)| failed.contains(test));
        sentence = sentence
            .text(format!("{separator}{name} fails in "))
            .names(failing.map(|(name, _)| (*name, String::new())), " and ");
    }
    Some(sentence.text(format!("{}.", count_more(different.len()))))
}

fn describe_patches(sides: &[TrialColumn]) -> Option<Sentence> {
    let (names, patches): (Vec<&TrialName>, Vec<&Vec<FilePatch>>) =
        sides.iter().filter_map(|side| Some((&side.name, side.result.patch.as_ref()?))).unzip();
    let [first, others @ ..] = patches.as_slice() else { return None };
    if others.is_empty() {
        return None;
    }
    let groups = equal_groups(&patches);
    if groups.len() == 1 {
        let text = match (first.is_empty(), patches.len()) {
            (true, _) => "No trial changed a file.",
            (false, 2) => "The patches are identical.",
            (false, _) => "All patches are identical.",
        };
        return Some(Sentence::from_text(text));
    }
    let all: BTreeSet<&str> =
        patches.iter().flat_map(|patch| patch.iter().map(|(path, _)| path.as_str())).collect();
    let is_different =
        |path: &&str| others.iter().any(|patch| file_part(patch, path) != file_part(first, path));
    let different: Vec<&str> = all.into_iter().filter(is_different).collect();
    let named: Vec<&str> = different.iter().copied().take(MAX_NAMED).collect();
    let files = match different.is_empty() {
        true => " in the order of their files".to_owned(),
        false => format!(" in {}{}", named.join(", "), count_more(different.len())),
    };
    let sentence = Sentence::from_text(format!("The patches differ{files}"));
    Some(match patches.len() {
        2 => sentence.text("."),
        _ => {
            let groups = describe_groups(&names, &groups);
            sentence.text(" (").join(groups).text(").")
        }
    })
}

/// Returns a file's part of a patch. `None` if the patch does not change the file.
fn file_part(patch: &[FilePatch], path: &str) -> Option<String> {
    let parts: Vec<&str> =
        patch.iter().filter(|(known, _)| known == path).map(|(_, text)| text.as_str()).collect();
    (!parts.is_empty()).then(|| parts.concat())
}

fn describe_edits(sides: &[TrialColumn]) -> Option<Sentence> {
    let (with, without): (Vec<&TrialColumn>, Vec<&TrialColumn>) = sides
        .iter()
        .filter(|side| !side.steps.is_empty())
        .partition(|side| side.result.different_edit.is_some());
    if with.is_empty() || with.len() + without.len() < 2 {
        return None;
    }
    let mut sentence = Sentence::from_text("The first different edit: ");
    for (index, side) in with.iter().enumerate() {
        let number = side.result.different_edit.unwrap_or_default();
        let separator = if index > 0 { ", " } else { "" };
        sentence = sentence
            .text(separator)
            .name(&side.name)
            .text(" in ")
            .link(format!("step {number}"), format!("{}/step/{number}", side.href));
    }
    for side in without {
        sentence = sentence.text("; ").name(&side.name).text(" makes no such edit");
    }
    Some(sentence.text("."))
}

fn count_more(count: usize) -> String {
    match count.checked_sub(MAX_NAMED) {
        Some(more) if more > 0 => format!(" and {more} more"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::html::StepRow;

    fn side(arm: &str, result: ComparedResult) -> TrialColumn {
        TrialColumn {
            name: TrialName { arm: arm.to_owned(), attempt: 1, ..TrialName::default() },
            href: format!("1/t/{arm}/1"),
            word: "resolved",
            class: "yes",
            detail: String::new(),
            steps: vec![StepRow { number: 1, ..StepRow::default() }],
            at: None,
            saw: None,
            step_texts: HashMap::new(),
            result,
        }
    }

    fn texts(sentences: &[Sentence]) -> Vec<String> {
        sentences.iter().map(Sentence::plain_text).collect()
    }

    #[test]
    fn results_are_compared_by_tests_patches_and_edits() {
        let result = |failed: &[&str], files: &[(&str, &str)], edit: Option<u64>| ComparedResult {
            failed_tests: Some(failed.iter().map(|test| (*test).to_owned()).collect()),
            patch: Some(files.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()),
            different_edit: edit,
            ..ComparedResult::default()
        };
        let right = result(&[], &[("a.py", "+1"), ("b.py", "+1")], Some(4));
        let wrong = result(&["t.py::test_x"], &[("a.py", "+1"), ("b.py", "+2")], Some(5));
        let idle = result(&["t.py::test_x"], &[], None);
        for (results, expected) in [
            (
                vec![right.clone(), wrong.clone()],
                vec![
                    "1 test has a different result: test_x fails in B.",
                    "The patches differ in b.py.",
                    "The first different edit: A in step 4, B in step 5.",
                ],
            ),
            (
                vec![right.clone(), wrong, right.clone()],
                vec![
                    "1 test has a different result: test_x fails in B.",
                    "The patches differ in b.py (A = C; B differs).",
                    "The first different edit: A in step 4, B in step 5, C in step 4.",
                ],
            ),
            (
                vec![ComparedResult { different_edit: None, ..right.clone() }; 2],
                vec!["All tests pass in each trial.", "The patches are identical."],
            ),
            (
                vec![right, idle.clone()],
                vec![
                    "1 test has a different result: test_x fails in B.",
                    "The patches differ in a.py, b.py.",
                    "The first different edit: A in step 4; B makes no such edit.",
                ],
            ),
            (
                vec![idle.clone(), idle],
                vec!["The same test fails in each trial.", "No trial changed a file."],
            ),
            (vec![ComparedResult::default(); 2], vec![]),
        ] {
            let sides: Vec<TrialColumn> = ["A", "B", "C"]
                .into_iter()
                .zip(results)
                .map(|(arm, result)| side(arm, result))
                .collect();
            assert_eq!(texts(&describe_results(&sides)), expected);
        }
    }

    #[test]
    fn groups_name_equal_and_different_trials() {
        let names =
            ["A", "B", "C"].map(|arm| TrialName { arm: arm.to_owned(), ..TrialName::default() });
        let names: Vec<&TrialName> = names.iter().collect();
        for (values, expected) in [
            ([1, 2, 1], "A = C; B differs"),
            ([1, 2, 3], "all differ"),
            ([1, 2, 2], "B = C; A differs"),
        ] {
            let groups = equal_groups(&values);
            assert_eq!(describe_groups(&names, &groups).plain_text(), expected);
        }
    }
}
