//! Reads the code that a gold patch adds.

use proctor_patch::{Patch, Side, gold_patch};
use proctor_types::Task;

/// Returns each consecutive run of lines that the gold patch adds. Returns nothing if the patch
/// cannot be read.
pub(crate) fn added_lines(task: &Task) -> Vec<Vec<String>> {
    let Some(gold) = gold_patch(task).ok().flatten() else { return Vec::new() };
    let patch = Patch::parse(&gold);
    let hunks = patch.files.iter().flat_map(|file| file.hunks());
    let runs = hunks.flat_map(|hunk| hunk.runs()).filter(|(side, _)| *side == Side::New);
    runs.map(|(_, lines)| lines.iter().map(|line| line.text()).collect()).collect()
}
