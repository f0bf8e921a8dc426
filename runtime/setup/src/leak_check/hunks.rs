//! The lines that a patch takes, brings and keeps, by file.

use std::collections::BTreeMap;

/// One file's lines, in runs of successive ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sides {
    pub removed: Vec<Vec<String>>,
    pub added: Vec<Vec<String>>,
    /// Context lines.
    pub kept: Vec<Vec<String>>,
}

/// Reads a patch leniently: whoever applies it judges it, here only its text counts.
pub(crate) fn sides(patch: &str) -> BTreeMap<String, Sides> {
    let mut files: BTreeMap<String, Sides> = BTreeMap::new();
    let mut old = String::new();
    let mut path = String::new();
    // Lines of the hunk that are still to come, on each side.
    let mut left = (0u64, 0u64);
    let mut last = ' ';
    for line in patch.lines() {
        if left == (0, 0) {
            last = ' ';
            if let Some(name) = line.strip_prefix("--- ") {
                old = name_of(name);
            } else if let Some(name) = line.strip_prefix("+++ ") {
                let new = name_of(name);
                path = if new == "/dev/null" { old.clone() } else { new };
            } else if let Some(counts) = line.strip_prefix("@@ -") {
                left = counts_of(counts).unwrap_or((0, 0));
                // Each hunk starts new runs.
                last = '@';
            }
            continue;
        }
        let (mark, text) = match line.chars().next() {
            Some(mark @ ('-' | '+' | ' ')) => (mark, &line[1..]),
            Some('\\') => continue,
            // Mailers strip the blank of an empty context line.
            _ => (' ', line),
        };
        let file = files.entry(path.clone()).or_default();
        let runs = match mark {
            '-' => &mut file.removed,
            '+' => &mut file.added,
            _ => &mut file.kept,
        };
        if mark != last || runs.is_empty() {
            runs.push(Vec::new());
        }
        if let Some(run) = runs.last_mut() {
            run.push(text.to_owned());
        }
        last = mark;
        left.0 -= u64::from(mark != '+').min(left.0);
        left.1 -= u64::from(mark != '-').min(left.1);
    }
    files
}

fn name_of(name: &str) -> String {
    let name = name.split('\t').next().unwrap_or(name).trim();
    if name == "/dev/null" {
        return name.to_owned();
    }
    name.split_once('/').map_or(name, |(_, rest)| rest).to_owned()
}

/// `12,3 +12,4 @@` as (3, 4).
fn counts_of(text: &str) -> Option<(u64, u64)> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((count(old)?, count(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_by_side() {
        let patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,5 +1,3 @@ def f\n \
                     kept\n---- a dashed line\n-two\n+new\n-three\n last\n@@ -9 +8,0 @@\n-tail\n";
        let files = sides(patch);
        let run = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            files["x.py"],
            Sides {
                removed: vec![run(&["--- a dashed line", "two"]), run(&["three"]), run(&["tail"])],
                added: vec![run(&["new"])],
                kept: vec![run(&["kept"]), run(&["last"])],
            }
        );
    }

    #[test]
    fn a_removed_file_keeps_its_name() {
        let patch = "--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-text\n";
        assert_eq!(sides(patch)["gone.py"].removed, [["text"]]);
    }
}
