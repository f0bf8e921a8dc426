//! Shows the changed lines in which the patches of a task's trials differ from each other and from
//! the gold patch.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{TrialColumn, TrialName, divergence::differing_lines, result_difference::FilePatch};

/// Maximum number of files whose difference is shown.
const MAX_FILES: usize = 3;

/// The files in which patches differ.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct PatchDifference<'a> {
    files: Vec<FileDifference<'a>>,
    /// Number of further files.
    more: usize,
    /// Whether the trials' patches differ from each other, and not only from the gold patch.
    between_trials: bool,
}

/// A file that the patches change differently.
#[derive(Debug, PartialEq, Serialize)]
struct FileDifference<'a> {
    path: &'a str,
    columns: Vec<ChangedLines<'a>>,
}

/// The changed lines of one patch, without those that all patches have in common at their start and
/// end.
#[derive(Debug, PartialEq, Serialize)]
struct ChangedLines<'a> {
    /// `None` for the gold patch.
    trial: Option<&'a TrialName>,
    text: String,
}

/// Compares the patches. Files in which trials differ from each other come before those in which
/// they differ only from the gold patch.
pub(crate) fn patch_difference(sides: &[TrialColumn]) -> PatchDifference<'_> {
    let of_trials: Vec<(&TrialName, &[FilePatch])> =
        sides.iter().filter_map(|side| Some((&side.name, side.result.patch.as_deref()?))).collect();
    let gold = sides.iter().find_map(|side| side.result.reference_patch.as_deref());
    let patches: Vec<&[FilePatch]> = of_trials.iter().map(|(_, patch)| *patch).collect();
    if patches.is_empty() {
        return PatchDifference::default();
    }
    let compared: Vec<&[FilePatch]> = patches.iter().copied().chain(gold).collect();
    let paths: BTreeSet<&str> =
        compared.iter().flat_map(|patch| patch.iter().map(|(path, _)| path.as_str())).collect();
    let (between, from_gold): (Vec<&str>, Vec<&str>) = paths
        .into_iter()
        .filter(|path| differ(&compared, path))
        .partition(|path| differ(&patches, path));
    let between_trials = !between.is_empty();
    let all: Vec<&str> = between.into_iter().chain(from_gold).collect();
    let lines_of = |path: &str| -> Vec<String> {
        let texts: Vec<String> = compared.iter().map(|patch| changed_lines(patch, path)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        differing_lines(&texts)
    };
    let names: Vec<Option<&TrialName>> =
        of_trials.iter().map(|(name, _)| Some(*name)).chain(gold.map(|_| None)).collect();
    let shown = all.iter().copied().take(MAX_FILES).map(|path| FileDifference {
        path,
        columns: names
            .iter()
            .zip(lines_of(path))
            .map(|(trial, text)| ChangedLines { trial: *trial, text })
            .collect(),
    });
    PatchDifference {
        files: shown.collect(),
        more: all.len().saturating_sub(MAX_FILES),
        between_trials,
    }
}

/// Whether the patches change a file differently.
fn differ(patches: &[&[FilePatch]], path: &str) -> bool {
    let mut changes = patches.iter().map(|patch| changed_lines(patch, path));
    let first = changes.next();
    changes.any(|lines| Some(&lines) != first.as_ref())
}

/// Returns the lines that a patch adds to a file and removes from it. Headers and unchanged lines
/// are left out, because they depend on the tool that wrote the patch.
fn changed_lines(patch: &[FilePatch], path: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for (_, text) in patch.iter().filter(|(known, _)| known == path) {
        let hunks = text.lines().skip_while(|line| !line.starts_with("@@"));
        lines.extend(hunks.filter(|line| line.starts_with(['+', '-'])));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::html::ComparedResult;

    fn files(parts: &[(&str, &str)]) -> Vec<FilePatch> {
        let part = |(path, lines): &(&str, &str)| {
            let text = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n def f():\n{lines}\n");
            ((*path).to_owned(), text)
        };
        parts.iter().map(part).collect()
    }

    fn side(arm: &str, patch: &[(&str, &str)], gold: Option<&[(&str, &str)]>) -> TrialColumn {
        TrialColumn {
            name: TrialName { arm: arm.to_owned(), attempt: 1, ..TrialName::default() },
            href: String::new(),
            word: "resolved",
            class: "yes",
            detail: String::new(),
            steps: vec![],
            at: None,
            saw: None,
            step_texts: HashMap::new(),
            result: ComparedResult {
                patch: Some(files(patch)),
                reference_patch: gold.map(files),
                ..ComparedResult::default()
            },
        }
    }

    /// Returns the difference as text: each file's path, then each trial's lines.
    fn texts(sides: &[TrialColumn]) -> Vec<String> {
        let difference = patch_difference(sides);
        let text = |file: &FileDifference<'_>| {
            let columns = file.columns.iter().map(|column| {
                let name = column.trial.map_or("gold", |name| name.arm.as_str());
                format!("{name}: {}", column.text)
            });
            format!("{} {}", file.path, columns.collect::<Vec<_>>().join(", "))
        };
        difference.files.iter().map(text).collect()
    }

    #[test]
    fn patches_are_compared_with_each_other_and_with_gold() {
        let gold: &[(&str, &str)] = &[("a.py", "-x\n+y"), ("b.py", "+z")];
        let right = side("A", &[("a.py", "-x\n+y"), ("b.py", "+z")], Some(gold));
        let wrong = side("B", &[("a.py", "-x\n+w"), ("b.py", "+z")], Some(gold));
        assert_eq!(texts(&[right.clone(), wrong.clone()]), ["a.py A: +y, B: +w, gold: +y"]);
        assert!(texts(&[right.clone(), right.clone()]).is_empty(), "headers don't count");
        // Equal patches can still differ from the gold patch.
        let both = [wrong.clone(), side("C", &[("a.py", "-x\n+w"), ("b.py", "+z")], Some(gold))];
        assert_eq!(texts(&both), ["a.py B: +w, C: +w, gold: +y"]);
        assert!(!patch_difference(&both).between_trials);
        assert!(patch_difference(&[right, wrong]).between_trials);
    }

    #[test]
    fn files_in_which_trials_differ_come_first() {
        let gold: &[(&str, &str)] = &[("a.py", "+1"), ("b.py", "+1")];
        let sides = [side("A", &[("b.py", "+2")], Some(gold)), side("B", &[], Some(gold))];
        assert_eq!(texts(&sides), ["b.py A: +2, B: , gold: +1", "a.py A: , B: , gold: +1"]);
        let many: Vec<(String, String)> =
            (0..MAX_FILES + 2).map(|at| (format!("{at}.py"), "+1".to_owned())).collect();
        let many: Vec<(&str, &str)> =
            many.iter().map(|(path, lines)| (path.as_str(), lines.as_str())).collect();
        let sides = [side("A", &many, None), side("B", &[], None)];
        let difference = patch_difference(&sides);
        assert_eq!((difference.files.len(), difference.more), (MAX_FILES, 2));
        assert_eq!(patch_difference(&[]), PatchDifference::default());
    }
}
