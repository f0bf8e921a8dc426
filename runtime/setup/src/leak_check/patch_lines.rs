//! Splits a patch into the lines that it removes, adds and keeps, by file.

use std::collections::BTreeMap;

use proctor_patch::{Hunk, Line, Patch, Side};

/// One file's lines, as runs of consecutive lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PatchLines {
    pub removed_runs: Vec<Vec<String>>,
    pub added_runs: Vec<Vec<String>>,
    /// Context lines.
    pub context_runs: Vec<Vec<String>>,
}

impl PatchLines {
    /// Whether the patch creates the file. This is assumed if it only adds lines.
    pub(crate) fn creates_file(&self) -> bool {
        self.removed_runs.is_empty() && self.context_runs.is_empty()
    }
}

/// Splits as much of the patch as possible. Ignores invalid parts, because they are detected when
/// the patch is applied.
pub(crate) fn patch_lines_by_file(patch: &str) -> BTreeMap<String, PatchLines> {
    let mut files: BTreeMap<String, PatchLines> = BTreeMap::new();
    for file in Patch::parse(patch.as_bytes()).files {
        let path = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
        for (side, run) in file.hunks().iter().flat_map(Hunk::runs) {
            let of = files.entry(path.clone()).or_default();
            let runs = match side {
                Side::Old => &mut of.removed_runs,
                Side::New => &mut of.added_runs,
                Side::Both => &mut of.context_runs,
            };
            runs.push(run.iter().map(Line::text).collect());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_lines_by_file_splits_lines_into_runs() {
        let patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,5 +1,3 @@ def f\n \
                     kept\n---- a dashed line\n-two\n+new\n-three\n last\n@@ -9 +8,0 @@\n-tail\n";
        let files = patch_lines_by_file(patch);
        let run = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            files["x.py"],
            PatchLines {
                removed_runs: vec![
                    run(&["--- a dashed line", "two"]),
                    run(&["three"]),
                    run(&["tail"])
                ],
                added_runs: vec![run(&["new"])],
                context_runs: vec![run(&["kept"]), run(&["last"])],
            }
        );
    }

    #[test]
    fn patch_lines_of_a_removed_file_use_its_old_name() {
        let patch = "--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n";
        assert_eq!(patch_lines_by_file(patch)["gone.py"].removed_runs, [["text"]]);
    }
}
