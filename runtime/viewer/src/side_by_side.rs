//! Loads one task's trials for the side-by-side page.

use proctor_record::RunDir;
use proctor_report::TaskReport;

use super::{
    PlannedTrial, address::AddressForm, overview::verdict_word_and_class, read_step,
    search::readable_address, viewed_run::ViewedRun,
};
use crate::{
    ViewError,
    html::{TrialChoice, TrialColumn, find_divergence},
};

/// Default number of trials to show, and the maximum.
const DEFAULT_TRIALS: usize = 4;
const MAX_TRIALS: usize = 12;

/// The columns of the trials that are shown, and the choices that the user can select from.
type SideBySide = (Vec<TrialColumn>, Vec<TrialChoice>);

/// Reads the trials in `selected_trials`, or each arm's first trial with steps if `selected_trials`
/// is empty. Returns `None` if there is no such task.
pub fn load_side_by_side(
    runs: &[ViewedRun],
    task: &str,
    selected_trials: &[&str],
    form: AddressForm,
) -> Result<Option<SideBySide>, ViewError> {
    let mut all: Vec<(&ViewedRun, PlannedTrial<'_>, TaskReport)> = Vec::new();
    for run in runs.iter().filter(|run| run.trial_count(task) > 0) {
        let run_results = run.current_results()?;
        let reports = &run_results.report.tasks;
        let of_task = run.trials_of_task(task);
        all.extend(of_task.map(|(index, found)| (run, found, reports[index].clone())));
    }
    if all.is_empty() {
        return Ok(None);
    }
    let is_named = |run: &ViewedRun, found: &PlannedTrial<'_>| {
        selected_trials.contains(&readable_address(run.number, found).as_str())
    };
    let most = if selected_trials.is_empty() { DEFAULT_TRIALS } else { MAX_TRIALS };
    let (mut sides, mut choices) = (Vec::new(), Vec::new());
    for (run, found, report) in &all {
        let name = match runs.len() {
            1 => format!("{} / {}", found.arm.name, found.attempt),
            _ => format!("{}: {} / {}", run.name, found.arm.name, found.attempt),
        };
        // By default, skip trials without steps, because there is nothing to compare.
        let steps = report.steps.is_none_or(|steps| steps > 0);
        let wanted = if selected_trials.is_empty() { steps } else { is_named(run, found) };
        let index = match wanted && sides.len() < most {
            true => run.current_index(found)?,
            false => None,
        };
        choices.push(TrialChoice {
            value: readable_address(run.number, found),
            name: name.clone(),
            shown: index.is_some(),
        });
        let Some(index) = index else { continue };
        let (word, class) = verdict_word_and_class(report.resolved);
        let detail = report.reason.map(|reason| reason.to_string());
        let side = TrialColumn {
            name,
            href: form.trial_address(run.number, found),
            word,
            class,
            detail: detail.or_else(|| report.outcome.clone()).unwrap_or_default(),
            steps: index.rows.clone(),
            at: None,
            saw: None,
        };
        sides.push((side, *run, *found, index));
    }
    let rows: Vec<_> = sides.iter().map(|(side, ..)| side.steps.as_slice()).collect();
    let divergence = find_divergence(&rows);
    let parted_at = divergence.parted.then_some(divergence.alike + 1);
    for (side, run, found, index) in &mut sides {
        let dir = RunDir::open_read_only(&run.path)?;
        let blobs = dir.trial_blobs(&dir.trial_dir(&found.id()));
        side.at = parted_at.and_then(|step| read_step(index, &blobs, step as u64));
        side.saw = divergence.saw.and_then(|step| read_step(index, &blobs, step as u64));
    }
    Ok(Some((sides.into_iter().map(|(side, ..)| side).collect(), choices)))
}
