//! The trials of a task side by side.

use proctor_record::RunDir;
use proctor_report::TaskReport;

use super::{Found, overview::word_of, place::Form, planned, search::said, shown::Shown, step};
use crate::{
    ViewError,
    html::{Choice, Side, parted},
};

/// Number of trials shown by default, and the maximum.
const DEFAULT_TRIALS: usize = 4;
const MAX_TRIALS: usize = 12;

/// The trials that are shown, and the trials to choose from.
type Beside = (Vec<Side>, Vec<Choice>);

/// Reads the requested trials (`named`), or the first trial of each arm if `named` is empty.
/// Returns `None` if there is no such task.
pub fn beside(
    runs: &[Shown],
    task: &str,
    named: &[&str],
    form: Form,
) -> Result<Option<Beside>, ViewError> {
    let mut all: Vec<(&Shown, Found<'_>, TaskReport)> = Vec::new();
    for run in runs {
        let read = run.read()?;
        let places = planned(&run.record).into_iter().zip(&read.report.tasks);
        let of_task = places.filter(|(found, _)| found.task.task.id.as_str() == task);
        all.extend(of_task.map(|(found, report)| (run, found, report.clone())));
    }
    if all.is_empty() {
        return Ok(None);
    }
    let is_named =
        |run: &Shown, found: &Found<'_>| named.contains(&said(run.number, found).as_str());
    let most = if named.is_empty() { DEFAULT_TRIALS } else { MAX_TRIALS };
    let (mut sides, mut choices) = (Vec::new(), Vec::new());
    for (run, found, report) in &all {
        let name = match runs.len() {
            1 => format!("{} / {}", found.arm.name, found.attempt),
            _ => format!("{}: {} / {}", run.name, found.arm.name, found.attempt),
        };
        // A trial without steps has nothing to compare.
        let steps = report.steps.is_none_or(|steps| steps > 0);
        let wanted = if named.is_empty() { steps } else { is_named(run, found) };
        let index = match wanted && sides.len() < most {
            true => run.index(found)?,
            false => None,
        };
        choices.push(Choice {
            value: said(run.number, found),
            name: name.clone(),
            shown: index.is_some(),
        });
        let Some(index) = index else { continue };
        let (word, class) = word_of(report.resolved);
        let detail = report.reason.map(|reason| reason.to_string());
        let side = Side {
            name,
            href: form.trial(run.number, found),
            word,
            class,
            detail: detail.or_else(|| report.outcome.clone()).unwrap_or_default(),
            steps: index.rows.clone(),
            at: None,
        };
        sides.push((side, *run, *found, index));
    }
    let rows: Vec<_> = sides.iter().map(|(side, ..)| side.steps.as_slice()).collect();
    let parted = parted(&rows);
    if !parted.never {
        for (side, run, found, index) in &mut sides {
            let dir = RunDir::view(&run.path)?;
            let blobs = dir.blobs_of(&dir.trial_path(&found.id()));
            side.at = step(index, &blobs, parted.alike as u64 + 1);
        }
    }
    Ok(Some((sides.into_iter().map(|(side, ..)| side).collect(), choices)))
}
