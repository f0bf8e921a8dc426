//! Finds lines of the solution that are in the patch although the model never wrote them. The agent
//! must have copied such lines without displaying them in any tool output.

use std::collections::BTreeSet;

use proctor_patch::{Patch, Side};
use proctor_record::{Blobs, Tree};
use proctor_types::{Envelope, Event, Fault};
use proctor_wire::RawPath;

use super::{
    known::{KnownLines, unreadable_record_fault},
    tally::Tally,
};
use crate::finding::FindingKind;

/// Compares the lines that the patch adds to each file with the solution.
pub(super) fn compare_patch(
    (patch, events, blobs): (&[u8], &[Envelope], Option<&Blobs>),
    describe_source: &dyn Fn() -> String,
    known_lines: &mut KnownLines<'_>,
    tally: &mut Tally,
) -> Result<(), Fault> {
    for file in &Patch::parse(patch).files {
        let mut added = Vec::new();
        for (side, lines) in file.hunks().iter().flat_map(|hunk| hunk.runs()) {
            if side == Side::New {
                lines.iter().for_each(|line| added.extend(format!("{}\n", line.text()).bytes()));
            }
            // Put a separator between added lines on both sides of an unchanged line, because they
            // are not consecutive.
            added.extend(b"\x01\n");
        }
        let held = known_lines.solution.find_runs(&added);
        let mut held = known_lines.underivable_runs(held)?;
        held.retain(|run| !tally.contains_run(*run));
        if !held.is_empty() {
            let step = blobs
                .map(|blobs| first_step_with_runs(&file.path(), &held, known_lines, events, blobs));
            tally.add(
                FindingKind::AnswerInEnvironment,
                describe_source,
                held,
                step.transpose()?.flatten(),
            );
        }
    }
    Ok(())
}

/// Returns the first step after which the file contained all of the given lines.
fn first_step_with_runs(
    path: &RawPath,
    runs: &BTreeSet<u32>,
    known_lines: &KnownLines<'_>,
    events: &[Envelope],
    blobs: &Blobs,
) -> Result<Option<u64>, Fault> {
    let mut last: Option<String> = None;
    for envelope in events {
        let Event::SnapshotTaken { snapshot, .. } = &envelope.event else { continue };
        let tree = Tree::load(blobs, snapshot).map_err(unreadable_record_fault)?;
        let Some(hash) = tree.entries.get(path).and_then(|entry| entry.hash.clone()) else {
            continue;
        };
        if last.as_ref() == Some(&hash) || !blobs.contains(&hash) {
            continue;
        }
        let runs_in_file =
            known_lines.solution.find_runs(&blobs.get(&hash).map_err(unreadable_record_fault)?);
        if runs.is_subset(&runs_in_file) {
            return Ok(Some(envelope.step));
        }
        last = Some(hash);
    }
    Ok(None)
}
