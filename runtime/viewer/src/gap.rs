//! Explains which trials of a run have no verdict, and why, after the run has stopped.

use std::{cmp::Reverse, collections::BTreeMap};

use proctor_report::deduplicate_errors;
use proctor_types::count_with_noun;

use super::{planned_trials, results::RunResults, viewed_run::ViewedRun};

/// Maximum number of different faults shown.
const MAX_FAULTS: usize = 3;
/// The kind of a trial whose grading was not requested. A run may plan this.
const NOT_REQUESTED: &str = "grading not requested";

/// The trials without a verdict. Both fields are empty if there are none, or if the run is still in
/// progress.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VerdictGap {
    /// The number of trials by kind, as a sentence.
    pub summary: String,
    /// The faults that ended trials or their grading, with the first trial and the number of trials of each.
    pub faults: Vec<String>,
}

pub fn verdict_gap(run: &ViewedRun, results: &RunResults) -> VerdictGap {
    if results.is_live() {
        return VerdictGap::default();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (result, has_started) in results.results.iter().zip(&results.trial_started) {
        let kind = match &result.outcome {
            _ if result.verdict.is_some() => continue,
            _ if !result.damage.is_empty() => "damaged".to_owned(),
            None if *has_started => "interrupted".to_owned(),
            None => "not started".to_owned(),
            Some(outcome) if outcome.ending.is_unfinished() => {
                outcome.ending.name().replace('_', " ")
            }
            Some(_) if result.grading_not_requested => NOT_REQUESTED.to_owned(),
            Some(_) => "not graded".to_owned(),
        };
        *counts.entry(kind).or_default() += 1;
    }
    let missing: usize = counts.values().sum();
    if missing == 0 {
        return VerdictGap::default();
    }
    let is_planned = counts.keys().all(|kind| kind == NOT_REQUESTED);
    let mut kinds: Vec<(String, usize)> = counts.into_iter().collect();
    kinds.sort_by_key(|(_, count)| Reverse(*count));
    let kinds: Vec<String> =
        kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let summary = format!(
        "{}{missing} of {} {} no verdict ({}).",
        if is_planned { "" } else { "Stopped: " },
        count_with_noun(results.results.len(), "trial"),
        if missing == 1 { "has" } else { "have" },
        kinds.join(", ")
    );
    let trials = planned_trials(&run.record);
    let faults = trials.iter().zip(&results.report.tasks).filter_map(|(trial, report)| {
        let fault = report.fault.as_ref().or(report.grading_fault.as_ref())?;
        Some((trial.name(), fault.clone()))
    });
    let mut faults = deduplicate_errors(faults, 1);
    if let Some(more) = faults.len().checked_sub(MAX_FAULTS).filter(|more| *more > 0) {
        faults.truncate(MAX_FAULTS);
        faults.push(format!("and {more} more; the findings list all"));
    }
    VerdictGap { summary, faults }
}

#[cfg(test)]
mod tests {
    use proctor_record::RunDir;
    use proctor_types::{Ending, Outcome, TrialId};

    use super::*;
    use crate::test_run::{finish_trial, write_plan};

    #[test]
    fn gap_counts_trials_without_a_verdict_by_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a", "b"], 2, 1);
        let gap = || {
            let run = ViewedRun::open(&path, 1).unwrap();
            verdict_gap(&run, &run.current_results().unwrap())
        };
        finish_trial(&path, &plan.tasks[0], &plan.arms[0], true);
        finish_trial(&path, &plan.tasks[0], &plan.arms[1], false);
        let id = TrialId {
            task: plan.tasks[1].task.id.clone(),
            arm: plan.arms[0].id.clone(),
            attempt: 1,
        };
        let run = RunDir::open(&path).unwrap();
        let dir = run.create_trial_dir(&id).unwrap();
        dir.write_outcome(&Outcome::from_ending(1, Ending::Cancelled)).unwrap();
        assert_eq!(gap(), VerdictGap::default(), "the run is in progress");
        drop(run);
        let summary = gap().summary;
        assert!(summary.starts_with("Stopped: 2 of 4 trials have no verdict ("), "{summary}");
        assert!(summary.contains("1 not started"), "{summary}");
        finish_trial(&path, &plan.tasks[1], &plan.arms[1], true);
        assert!(gap().summary.starts_with("Stopped: 1 of 4 trials has no verdict ("));
    }
}
