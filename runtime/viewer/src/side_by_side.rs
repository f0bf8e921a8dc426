//! Loads one task's trials for the side-by-side page.

use std::{collections::HashMap, sync::Arc};

use proctor_patch::{FilePatch, Patch};
use proctor_record::{Blobs, RunDir};
use proctor_types::Verdict;

use super::{
    JournalIndex, PlannedTrial,
    failure_label::failure_label,
    overview::verdict_word_and_class,
    read_step, reference_patch,
    results::RunResults,
    search::trial_key,
    steps::{read_step_diff, read_step_text},
    urls::UrlForm,
    viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{ComparedResult, TrialChoice, TrialColumn, TrialName, differing_steps, find_divergence},
};

/// Default number of trials to show, and the maximum.
const DEFAULT_TRIALS: usize = 4;
const MAX_TRIALS: usize = 12;
/// Maximum number of steps of a trial whose difference is shown. The rows of later steps show the
/// first words of their calls.
const MAX_STEP_TEXTS: usize = 500;
/// Maximum number of edits of each trial that are compared. Trials usually differ in an early one.
const MAX_EDITS: usize = 12;

/// The columns of the trials that are shown, and the choices that the user can select from.
type SideBySide = (Vec<TrialColumn>, Vec<TrialChoice>);

/// Reads the trials in `selected_trials`. If it is empty, reads the first trials with steps of the
/// run with number `own_run`, or of all runs if that run has only one trial of the task. Returns
/// `None` if the run does not have the task.
pub fn load_side_by_side(
    runs: &[ViewedRun],
    own_run: usize,
    task: &str,
    selected_trials: &[&str],
    form: UrlForm,
) -> Result<Option<SideBySide>, ViewError> {
    let mut all: Vec<(&ViewedRun, PlannedTrial<'_>, Arc<RunResults>, usize)> = Vec::new();
    for run in runs.iter().filter(|run| run.trial_count(task) > 0) {
        let run_results = run.current_results()?;
        let of_task = run.trials_for_task(task);
        all.extend(
            of_task.map(|(position, found)| (run, found, Arc::clone(&run_results), position)),
        );
    }
    let own_count = all.iter().filter(|(run, ..)| run.number == own_run).count();
    if own_count == 0 {
        return Ok(None);
    }
    let is_named = |run: &ViewedRun, found: &PlannedTrial<'_>| {
        selected_trials.contains(&trial_key(run.number, found).as_str())
    };
    let most = if selected_trials.is_empty() { DEFAULT_TRIALS } else { MAX_TRIALS };
    let (mut sides, mut choices) = (Vec::new(), Vec::new());
    for (run, found, run_results, position) in &all {
        let (report, result) =
            (&run_results.report.tasks[*position], &run_results.results[*position]);
        let name = TrialName {
            run: if runs.len() == 1 { String::new() } else { run.name.clone() },
            task: String::new(),
            arm: found.arm.name.clone(),
            attempt: found.attempt,
        };
        // By default, skip trials without steps, because there is nothing to compare.
        let is_default =
            (own_count == 1 || run.number == own_run) && report.steps.is_none_or(|steps| steps > 0);
        let wanted = if selected_trials.is_empty() { is_default } else { is_named(run, found) };
        let index = match wanted && sides.len() < most {
            true => run.current_index(found)?,
            false => None,
        };
        choices.push(TrialChoice {
            value: trial_key(run.number, found),
            name: name.clone(),
            shown: index.is_some(),
        });
        let Some(index) = index else { continue };
        let (word, class) = verdict_word_and_class(report.resolved);
        let failure = failure_label(result, report.reason, &index.rows);
        let reference = reference_patch(found.task);
        let side = TrialColumn {
            name,
            href: form.trial_url(run.number, found),
            word,
            class,
            detail: match failure.is_empty() {
                true => report.outcome.clone().unwrap_or_default(),
                false => failure,
            },
            steps: index.rows.clone(),
            at: None,
            saw: None,
            step_texts: HashMap::new(),
            result: ComparedResult {
                failed_tests: result.verdict.as_ref().map(failed_tests),
                reference_patch: (!reference.is_empty()).then(|| file_parts(reference.as_bytes())),
                ..ComparedResult::default()
            },
        };
        sides.push((side, *run, *found, index));
    }
    // Only trials with steps are compared step by step.
    let acting = sides.iter().filter(|(side, ..)| !side.steps.is_empty());
    let rows: Vec<_> = acting.map(|(side, ..)| side.steps.as_slice()).collect();
    let divergence = find_divergence(&rows);
    let mut differing = differing_steps(&rows).into_iter();
    let parted_at = divergence.parted.then_some(divergence.alike + 1);
    let edits = {
        let mut edits = Vec::new();
        for (side, run, found, index) in &mut sides {
            let dir = RunDir::open_read_only(&run.path)?;
            let trial_dir = dir.trial_dir(&found.id());
            let blobs = dir.trial_blobs(&trial_dir);
            side.result.patch =
                trial_dir.read_patch().ok().flatten().map(|patch| file_parts(&patch));
            if side.steps.is_empty() {
                edits.push(None);
                continue;
            }
            side.at = parted_at.and_then(|step| read_step(index, &blobs, step as u64));
            side.saw = divergence.saw.and_then(|step| read_step(index, &blobs, step as u64));
            let shown = differing.next().unwrap_or_default().into_iter().take(MAX_STEP_TEXTS);
            side.step_texts = shown.map(|step| (step, read_step_text(index, step))).collect();
            edits.push(Some(TrialEdits { index, blobs }));
        }
        first_different_edits(&edits)
    };
    let mut columns: Vec<TrialColumn> = sides.into_iter().map(|(side, ..)| side).collect();
    for (side, edit) in columns.iter_mut().zip(edits) {
        side.result.different_edit = edit;
    }
    Ok(Some((columns, choices)))
}

fn failed_tests(verdict: &Verdict) -> Vec<String> {
    let groups = [&verdict.fail_to_pass, &verdict.pass_to_pass];
    groups.into_iter().flat_map(|group| group.failed.iter().cloned()).collect()
}

/// Splits a patch into its files.
fn file_parts(patch: &[u8]) -> Vec<(String, String)> {
    let part = |file: &FilePatch| {
        let text = patch.get(file.text_range.clone()).unwrap_or_default();
        let path = String::from_utf8_lossy(file.path().as_bytes()).into_owned();
        (path, String::from_utf8_lossy(text).into_owned())
    };
    Patch::parse(patch).files.iter().map(part).collect()
}

/// A trial whose edits are compared.
struct TrialEdits<'a> {
    index: &'a JournalIndex,
    blobs: Blobs,
}

impl TrialEdits<'_> {
    /// Returns the trial's edit with this index: its step and its diff.
    fn edit(&self, number: usize) -> Option<(u64, String)> {
        let row = self.index.rows.iter().filter(|row| row.changed > 0).nth(number)?;
        Some((row.number, read_step_diff(self.index, &self.blobs, row.number)?))
    }
}

/// Returns, for each trial, the step of the first edit that is not the same in all trials. All are
/// `None` if the edits are the same. A trial without steps is not compared.
fn first_different_edits(trials: &[Option<TrialEdits<'_>>]) -> Vec<Option<u64>> {
    for number in 0..MAX_EDITS {
        let edits: Vec<Option<(u64, String)>> =
            trials.iter().map(|trial| trial.as_ref()?.edit(number)).collect();
        let compared = trials.iter().zip(&edits).filter(|(trial, _)| trial.is_some());
        let mut diffs = compared.map(|(_, edit)| edit.as_ref().map(|(_, diff)| diff));
        let Some(first) = diffs.next() else { break };
        if diffs.any(|diff| diff != first) {
            return edits.into_iter().map(|edit| edit.map(|(step, _)| step)).collect();
        }
        if first.is_none() {
            break;
        }
    }
    vec![None; trials.len()]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proctor_record::{Journal, Tree};
    use proctor_types::{Event, ModelResponse, Usage};
    use serde_json::json;

    use super::*;

    fn answered() -> Event {
        let answer = ModelResponse {
            content: "done".into(),
            tool_calls: vec![],
            extra: Default::default(),
            native: None,
            finish_reason: None,
            refused: false,
            usage: Usage::default(),
            cost_usd: None,
        };
        Event::ModelAnswered { answer }
    }

    /// Records a trial whose steps leave the given words in `a.py`. Returns its index.
    fn record_trial(path: &Path, blobs: &Blobs, contents: &str) -> JournalIndex {
        let snapshot = |content: &str, changed: u64| {
            let hash = blobs.put(content.as_bytes()).unwrap();
            let entry = json!({
                "path": "a.py", "kind": "file", "mode": 0o644, "size": content.len(), "hash": hash
            });
            let manifest = json!({ "manifest": 1, "entries": [entry] }).to_string();
            let snapshot = Tree::from_json(manifest.as_bytes()).unwrap().save(blobs).unwrap();
            Event::SnapshotTaken { snapshot, changed, removed: 0, bytes: 1, ms: 1.0, outside: None }
        };
        let mut journal = Journal::create(path.to_owned(), 1).unwrap();
        let mut last = ".";
        journal.append(0, snapshot(last, 1)).unwrap();
        for (step, content) in (1..).zip(contents.split(' ')) {
            journal.append(step, answered()).unwrap();
            journal.append(step, snapshot(content, u64::from(last != content))).unwrap();
            last = content;
        }
        JournalIndex::from_journal(path).unwrap()
    }

    #[test]
    fn first_different_edit_is_found_by_its_diff() {
        let folder = tempfile::tempdir().unwrap();
        let new_blobs = || Blobs::new(folder.path().join("blobs"));
        let blobs = new_blobs();
        for (number, (contents, expected)) in [
            // The same edits, in different steps.
            (["x y", ". x x y"], [None, None]),
            (["x . y", "x z"], [Some(2), Some(2)]),
            (["x y", "x x"], [Some(2), None]),
        ]
        .into_iter()
        .enumerate()
        {
            let [one, other] = ["one", "other"].map(|name| format!("{number}-{name}.jsonl"));
            let one = record_trial(&folder.path().join(one), &blobs, contents[0]);
            let other = record_trial(&folder.path().join(other), &blobs, contents[1]);
            let trials = [
                Some(TrialEdits { index: &one, blobs: new_blobs() }),
                // A trial without steps is not compared.
                None,
                Some(TrialEdits { index: &other, blobs: new_blobs() }),
            ];
            let found = first_different_edits(&trials);
            assert_eq!([found[0], found[2]], expected, "{contents:?}");
            assert_eq!(found[1], None);
        }
    }

    #[test]
    fn patch_is_split_into_files() {
        let patch = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n\
                     diff --git a/b.py b/b.py\nnew file mode 100644\n--- /dev/null\n+++ b/b.py\n\
                     @@ -0,0 +1 @@\n+z\n";
        let parts = file_parts(patch.as_bytes());
        let paths: Vec<&str> = parts.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a.py", "b.py"]);
        assert!(parts[0].1.contains("+y") && !parts[0].1.contains("+z"), "{parts:?}");
        assert!(parts[1].1.ends_with("+z\n"), "{parts:?}");
    }
}
