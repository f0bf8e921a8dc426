//! Loads one task's trials for the side-by-side page.

use std::collections::HashMap;

use proctor_record::RunDir;
use proctor_report::TaskReport;

use super::{
    PlannedTrial, overview::verdict_word_and_class, read_step, search::trial_key,
    steps::read_step_text, urls::UrlForm, viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{TrialChoice, TrialColumn, TrialName, differing_steps, find_divergence},
};

/// Default number of trials to show, and the maximum.
const DEFAULT_TRIALS: usize = 4;
const MAX_TRIALS: usize = 12;
/// Maximum number of steps of a trial whose difference is shown. The rows of later steps show the
/// first words of their calls.
const MAX_STEP_TEXTS: usize = 500;

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
    let mut all: Vec<(&ViewedRun, PlannedTrial<'_>, TaskReport)> = Vec::new();
    for run in runs.iter().filter(|run| run.trial_count(task) > 0) {
        let run_results = run.current_results()?;
        let reports = &run_results.report.tasks;
        let of_task = run.trials_for_task(task);
        all.extend(of_task.map(|(index, found)| (run, found, reports[index].clone())));
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
    for (run, found, report) in &all {
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
        let detail = report.reason.map(|reason| reason.to_string());
        let side = TrialColumn {
            name,
            href: form.trial_url(run.number, found),
            word,
            class,
            detail: detail.or_else(|| report.outcome.clone()).unwrap_or_default(),
            steps: index.rows.clone(),
            at: None,
            saw: None,
            step_texts: HashMap::new(),
        };
        sides.push((side, *run, *found, index));
    }
    let rows: Vec<_> = sides.iter().map(|(side, ..)| side.steps.as_slice()).collect();
    let divergence = find_divergence(&rows);
    let differing = differing_steps(&rows);
    let parted_at = divergence.parted.then_some(divergence.alike + 1);
    for ((side, run, found, index), differing) in sides.iter_mut().zip(differing) {
        let dir = RunDir::open_read_only(&run.path)?;
        let blobs = dir.trial_blobs(&dir.trial_dir(&found.id()));
        side.at = parted_at.and_then(|step| read_step(index, &blobs, step as u64));
        side.saw = divergence.saw.and_then(|step| read_step(index, &blobs, step as u64));
        let shown = differing.into_iter().take(MAX_STEP_TEXTS);
        side.step_texts = shown.map(|step| (step, read_step_text(index, step))).collect();
    }
    Ok(Some((sides.into_iter().map(|(side, ..)| side).collect(), choices)))
}
