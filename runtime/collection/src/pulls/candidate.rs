//! Splits a merged pull request into a patch and tests, measures them, and applies the filters.

use std::{collections::BTreeSet, ops::RangeInclusive};

use proctor_datasets::fea_bench::{
    AddedComponent, Repository, SplitDiff, added_components, split_diff,
};
use proctor_patch::{Patch, Side};
use proctor_retrieval::is_test;
use proctor_tokens::Encoding;
use proctor_types::NewComponent;
use serde::{Deserialize, Serialize};

use super::{
    dump::DumpedPull,
    funnel::{Stage, StopReason},
    history::{Change, Pull},
    intent::classify_intent,
    settings::PullSettings,
};

/// A pull request that may become a task. None of its code has been run yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Candidate {
    pub(super) number: u64,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) labels: Vec<String>,
    pub(super) intent: String,
    /// The commits before and after the pull request's changes.
    pub(super) base: String,
    pub(super) head: String,
    pub(super) created_at: String,
    pub(super) first_written: u64,
    pub(super) patch: String,
    pub(super) test_patch: String,
    pub(super) non_py_patch: String,
    pub(super) components: Vec<Component>,
    /// Number of lines that the patch adds or removes.
    pub(super) edited: usize,
    /// Number of lines that the patch adds inside new components.
    pub(super) new_lines: usize,
    pub(super) functions: usize,
    pub(super) classes: usize,
}

/// A new component, with the numbers of its first and last lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Component {
    #[serde(flatten)]
    pub(super) component: NewComponent,
    pub(super) lines: (usize, usize),
}

impl Candidate {
    /// Creates a candidate if the pull request passes all filters that don't run code.
    ///
    /// # Errors
    /// Returns the stage that rejected the pull request, and the reason.
    pub(super) fn from_pull(
        clone: &Repository,
        pull: &Pull,
        dumped_pull: Option<&DumpedPull>,
        settings: &PullSettings,
        use_rules: bool,
    ) -> Result<Self, StopReason> {
        let stop = |stage: Stage| move |why: String| StopReason::Reject(stage, why);
        let (base, head) = match &pull.change {
            // Diff against the merge base, so that the diff contains only the branch's own changes.
            // Forges do the same.
            Change::Merge(main, head) => {
                (clone.merge_base(main, head).map_err(stop(Stage::Tests))?, head.clone())
            }
            Change::Squash(parent, commit) => (parent.clone(), commit.clone()),
        };
        let whole = clone.diff(&base, &head).map_err(stop(Stage::Tests))?;
        let SplitDiff { patch, test_patch, non_py_patch, python_files: python } =
            split_diff(&whole, is_test);
        if test_patch.is_empty() {
            return Err(StopReason::Reject(Stage::Tests, "it changes no tests".into()));
        }
        let mut components = Vec::new();
        for path in &python {
            let before = clone.read_file(&base, path).unwrap_or_default();
            let after = clone.read_file(&head, path).unwrap_or_default();
            components.extend(added_components(path, &before, &after).unwrap_or_default());
        }
        if components.is_empty() {
            return Err(StopReason::Reject(
                Stage::Components,
                "it adds no function or class".into(),
            ));
        }
        let (edited, new_lines) = count_edited_lines(&patch, &components);
        let share = new_lines as f64 / edited.max(1) as f64;
        if share <= settings.filters.share {
            let reason = format!(
                "only {new_lines} of {edited} edited lines are in added functions and classes"
            );
            return Err(StopReason::Reject(Stage::Share, reason));
        }
        let (title, body) = match dumped_pull {
            Some(row) => (row.title.clone(), row.body.clone().unwrap_or_default()),
            None => (pull.title.clone(), pull.body.clone()),
        };
        let labels: Vec<String> = dumped_pull
            .into_iter()
            .flat_map(|row| &row.labels)
            .map(|label| label.name.clone())
            .collect();
        let intent = classify_intent(&title, &body, &labels, &settings.intent);
        if !intent.is_feature && use_rules {
            return Err(StopReason::Reject(Stage::Intent, intent.reason));
        }
        let tokens = Encoding::Cl100k.count(&patch);
        if tokens > settings.filters.tokens {
            return Err(StopReason::Reject(Stage::Size, format!("its patch has {tokens} tokens")));
        }
        let of_kind = |kind: &str| components.iter().filter(|it| it.component.kind == kind).count();
        let first_written = clone.earliest_author_date(&base, &head).unwrap_or(pull.written_at);
        Ok(Self {
            number: pull.number,
            title,
            body,
            labels,
            intent: intent.reason,
            base,
            head,
            created_at: dumped_pull
                .and_then(|row| row.created_at.clone())
                .unwrap_or_else(|| pull.date.clone()),
            first_written,
            patch,
            test_patch,
            non_py_patch,
            edited,
            new_lines,
            functions: of_kind("function"),
            classes: of_kind("class"),
            components: components
                .into_iter()
                .map(|AddedComponent { component, first_line: first, last_line: last }| Component {
                    component,
                    lines: (first, last),
                })
                .collect(),
        })
    }

    /// Returns the changed test files that still exist after the change and that pytest collects by
    /// default.
    pub(super) fn test_files(&self) -> Vec<String> {
        let files = Patch::parse(self.test_patch.as_bytes()).files;
        let names = files.iter().filter_map(|file| file.new_path.as_ref());
        let names = names.map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
        let mut out: Vec<String> = names
            .filter(|name| {
                let stem = name.rsplit('/').next().unwrap_or(name).strip_suffix(".py");
                stem.is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test"))
            })
            .collect();
        out.sort();
        out
    }

    pub(super) fn file_count(&self) -> usize {
        Patch::parse(self.patch.as_bytes()).paths().len()
    }

    pub(super) fn components(&self) -> Vec<NewComponent> {
        self.components.iter().map(|it| it.component.clone()).collect()
    }
}

/// Counts the lines that a patch edits, and the lines that it adds inside new components.
fn count_edited_lines(patch: &str, components: &[AddedComponent]) -> (usize, usize) {
    let (mut edited, mut inside) = (0, 0);
    for file in Patch::parse(patch.as_bytes()).files {
        let name = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
        let spans: Vec<RangeInclusive<usize>> = components
            .iter()
            .filter(|it| it.component.file == name)
            .map(|it| it.first_line..=it.last_line)
            .collect();
        let mut new: BTreeSet<usize> = BTreeSet::new();
        for hunk in file.hunks() {
            let mut at = hunk.new_start;
            for line in &hunk.lines {
                match line.side {
                    Side::Both => at += 1,
                    Side::Old => edited += 1,
                    Side::New => {
                        edited += 1;
                        new.insert(at);
                        at += 1;
                    }
                }
            }
        }
        inside += new.iter().filter(|line| spans.iter().any(|span| span.contains(line))).count();
    }
    (edited, inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_edited_lines_counts_only_added_lines_in_new_components() {
        let before = "def a():\n    return 1\n";
        let after = "import os\n\n\ndef a():\n    return 2\n\n\nclass B:\n    def c(self):\n        return os\n";
        let patch = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,10 @@\n+import os\n+\n+\n def a():\n-    return 1\n+    return 2\n+\n+\n+class B:\n+    def c(self):\n+        return os\n\
                     diff --git a/README b/README\n--- a/README\n+++ b/README\n@@ -1 +1,2 @@\n x\n+y\n";
        let components = added_components("m.py", before, after).unwrap();
        // Lines in nested components are counted only once.
        assert_eq!(count_edited_lines(patch, &components), (11, 3));
    }

    #[test]
    fn test_helpers_are_not_test_files() {
        let file = |name: &str| {
            format!(
                "diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-x\n+y\n"
            )
        };
        let test_patch = ["tests/test_b.py", "tests/conftest.py", "a/x_test.py", "tests/data.txt"]
            .map(file)
            .concat();
        let candidate = Candidate { test_patch, ..Candidate::default() };
        assert_eq!(candidate.test_files(), ["a/x_test.py", "tests/test_b.py"]);
    }
}
