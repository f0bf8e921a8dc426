//! The hidden solution, as runs of lines to search for.

use std::collections::{BTreeSet, HashMap};

use proctor_patch::{Patch, Side, gold_patch};
use proctor_scan::WindowSet;
use proctor_types::{Fault, Task};
use proctor_wire::{WINDOW_LINES, fingerprint};
use serde_json::Value;

use super::{frames, settings::Settings};

/// The lines that a task's gold and test patches add, and the runs of three consecutive lines to
/// search for. This data never leaves the host.
pub struct Solution {
    pub(super) settings: &'static Settings,
    pub(super) lines: Vec<Line>,
    /// Each sequence of three consecutive lines, as indexes into `lines`.
    pub(super) runs: Vec<[usize; WINDOW_LINES]>,
    line_by_hash: HashMap<u64, usize>,
    windows: WindowSet,
}

/// A line of the solution.
pub(super) struct Line {
    pub text: String,
    /// The normalized text. The fingerprint is computed from this text.
    pub normalized: Vec<u8>,
    /// Whether the line is short, part of an interface, or contained in the task row.
    pub is_common: bool,
}

impl Solution {
    /// Returns a task's solution. Returns `None` if the gold patch is unknown, or if it is too
    /// short for a match to be significant.
    ///
    /// # Errors
    /// Returns an error if the built-in thresholds cannot be read.
    pub fn from_task(task: &Task) -> Result<Option<Self>, Fault> {
        let settings = Settings::get()?;
        // Ignore a gold patch that cannot be read. Task setup reports it.
        let gold = gold_patch(task).ok().flatten();
        let tests = task.test_patch.as_ref().map(|text| text.as_bytes().to_vec());
        let (mut lines, mut runs) = (Vec::<Line>::new(), Vec::new());
        let (mut by_hash, mut windows) = (HashMap::new(), HashMap::new());
        for patch in gold.into_iter().chain(tests) {
            for file in &Patch::parse(&patch).files {
                for (side, added) in file.hunks().iter().flat_map(|hunk| hunk.runs()) {
                    if side != Side::New {
                        continue;
                    }
                    let mut run = Vec::new();
                    for line in added {
                        let text = line.text();
                        let Some((hash, bytes)) = fingerprint::hash_line(text.as_bytes()) else {
                            continue;
                        };
                        let at = *by_hash.entry(hash).or_insert(lines.len());
                        if at == lines.len() {
                            let left = fingerprint::normalize(text.as_bytes());
                            let shown = text.trim_start();
                            let interface = |word: &String| shown.starts_with(word.as_str());
                            let is_common = bytes < settings.line_bytes
                                || settings.interface.iter().any(interface);
                            lines.push(Line { text, normalized: left, is_common });
                        }
                        run.push((hash, at));
                    }
                    for three in run.windows(WINDOW_LINES) {
                        let hash = fingerprint::hash_window(&[three[0].0, three[1].0, three[2].0]);
                        windows.entry(hash).or_insert_with(|| {
                            runs.push((hash, [three[0].1, three[1].1, three[2].1]));
                        });
                    }
                }
            }
        }
        let row = visible_task_text(task);
        for line in lines.iter_mut().filter(|line| !line.is_common) {
            line.is_common = contains_bytes(&row, &line.normalized);
        }
        let rare = |run: &[usize; WINDOW_LINES]| {
            run.iter().filter(|line| !lines[**line].is_common).count() >= settings.rare_lines
        };
        runs.retain(|(_, run)| rare(run));
        if runs.len() < settings.least_runs {
            return Ok(None);
        }
        let (hashes, runs) = runs.into_iter().unzip();
        let windows = WindowSet::new(hashes, settings.scan_limits());
        Ok(Some(Self { settings, lines, runs, line_by_hash: by_hash, windows }))
    }

    /// Returns the index of the solution's line that equals this line.
    pub(super) fn find_line(&self, line: &[u8]) -> Option<usize> {
        let (hash, _) = fingerprint::hash_line(line)?;
        self.line_by_hash.get(&hash).copied()
    }

    /// Returns the runs that the content contains. Archives in the content are opened, and
    /// encodings are decoded.
    pub(super) fn find_runs(&self, content: &[u8]) -> BTreeSet<u32> {
        let mut runs = self.windows.find_windows(content);
        // Git's frames split the data in a response, so reassemble it first.
        if let Some(bytes) = frames::reassemble_pack(content) {
            runs.extend(self.windows.find_windows(&bytes));
        }
        runs
    }

    /// Returns whether a response from the egress proxy contains enough of the solution to be kept
    /// for closer inspection.
    pub fn is_contained_in(&self, response: &[u8]) -> bool {
        self.find_runs(response).len() >= self.settings.least_runs
    }

    /// Returns the limits of the comparison: bytes per response, total bytes of all responses in
    /// transit, and responses per trial.
    pub fn limits(&self) -> (usize, usize, usize) {
        let limits = self.settings.limits;
        (limits.answer_bytes, limits.answers_bytes, limits.answers_kept)
    }
}

/// Returns the normalized text of everything in the task row that the agent sees, such as the
/// statement and the interfaces.
fn visible_task_text(task: &Task) -> Vec<u8> {
    let Ok(Value::Object(mut row)) = serde_json::to_value(task) else { return Vec::new() };
    for key in ["mask", "gold", "test_patch", "cheats"] {
        row.remove(key);
    }
    let mut left = Vec::new();
    super::requests::for_each_string(&Value::Object(row), &mut |text| {
        left.extend(fingerprint::normalize(text.as_bytes()));
        left.push(0);
    });
    left
}

pub(super) fn contains_bytes(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}
