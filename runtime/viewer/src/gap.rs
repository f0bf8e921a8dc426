//! Explains which trials of a run have no verdict, and why, after the run has stopped.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use proctor_report::{MissingReason, error_key};
use proctor_types::count_with_noun;

use super::{
    pages::trial_name, planned_trials, results::RunResults, urls::UrlForm, viewed_run::ViewedRun,
};
use crate::html::RunFault;

/// Maximum number of different faults listed.
const MAX_FAULTS: usize = 100;

/// The trials without a verdict. Both fields are empty if there are none, or if the run is still in
/// progress.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VerdictGap {
    /// The number of trials by reason, as a sentence.
    pub summary: String,
    /// The faults that ended trials or their grading, with the first trial and the number of trials of
    /// each.
    pub faults: Vec<RunFault>,
}

pub fn verdict_gap(run: &ViewedRun, results: &RunResults, form: UrlForm) -> VerdictGap {
    if results.is_live() {
        return VerdictGap::default();
    }
    let mut counts: BTreeMap<MissingReason, u64> = BTreeMap::new();
    let results_with_reports = results.results.iter().zip(&results.report.tasks);
    for ((result, report), has_started) in results_with_reports.zip(&results.trial_started) {
        if result.verdict.is_some() {
            continue;
        }
        let reason = match MissingReason::for_trial(report) {
            MissingReason::NotEnded if *has_started => MissingReason::Interrupted,
            MissingReason::NotEnded => MissingReason::NotStarted,
            MissingReason::NotGraded if result.grading_not_requested => {
                MissingReason::GradingNotRequested
            }
            reason => reason,
        };
        *counts.entry(reason).or_default() += 1;
    }
    let missing: u64 = counts.values().sum();
    if missing == 0 {
        return VerdictGap::default();
    }
    // A run may plan not to grade.
    let is_planned = counts.keys().all(|reason| *reason == MissingReason::GradingNotRequested);
    let mut reasons: Vec<(MissingReason, u64)> = counts.into_iter().collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    let reasons: Vec<String> =
        reasons.into_iter().map(|(reason, count)| reason.describe(count)).collect();
    let summary = format!(
        "{}{missing} of {} {} no verdict ({}).",
        if is_planned { "" } else { "Stopped: " },
        count_with_noun(results.results.len(), "trial"),
        if missing == 1 { "has" } else { "have" },
        reasons.join(", ")
    );
    VerdictGap { summary, faults: distinct_faults(run, results, form) }
}

/// Returns the faults that ended trials or their grading, in order of their first trial.
fn distinct_faults(run: &ViewedRun, results: &RunResults, form: UrlForm) -> Vec<RunFault> {
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut faults: Vec<RunFault> = Vec::new();
    for (trial, report) in planned_trials(&run.record).iter().zip(&results.report.tasks) {
        let Some(text) = report.fault.as_ref().or(report.grading_fault.as_ref()) else { continue };
        let position = *positions.entry(error_key(text)).or_insert(faults.len());
        match faults.get_mut(position) {
            Some(fault) => fault.others += 1,
            None => faults.push(RunFault {
                trial: trial_name(trial),
                href: form.trial_url(run.number, trial),
                others: 0,
                text: text.clone(),
            }),
        }
    }
    faults.truncate(MAX_FAULTS);
    faults
}

#[cfg(test)]
mod tests {
    use proctor_record::RunDir;
    use proctor_types::{Ending, Event, Fault, FaultLayer, Outcome, TrialId};

    use super::*;
    use crate::test_run::{finish_trial, start_trial, write_plan};

    #[test]
    fn gap_counts_trials_without_a_verdict_by_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a", "b"], 2, 1);
        let gap = || {
            let run = ViewedRun::open(&path, 1).unwrap();
            verdict_gap(&run, &run.current_results().unwrap(), UrlForm::ServerPath)
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

    #[test]
    fn equal_faults_are_listed_once_with_the_first_trial() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 4, 1);
        for (task, what) in plan.tasks.iter().zip(["busy", "gone", "busy", "busy"]) {
            let (_, dir, mut journal) = start_trial(&path, task, &plan.arms[0]);
            let fault = Fault::new(FaultLayer::Model, what);
            let outcome = Outcome::from_ending(1, Ending::InfrastructureFault { fault });
            let ended = Event::TrialEnded { outcome: Box::new(outcome.clone()), packed: None };
            journal.append(0, ended).unwrap();
            dir.write_outcome(&outcome).unwrap();
        }
        let run = ViewedRun::open(&path, 1).unwrap();
        let results = run.current_results().unwrap();
        let faults = verdict_gap(&run, &results, UrlForm::ServerPath).faults;
        let found: Vec<(&str, usize, &str)> = faults
            .iter()
            .map(|one| (one.trial.task.as_str(), one.others, one.text.as_str()))
            .collect();
        let expected =
            [("task-00000", 2, "model fault: busy"), ("task-00001", 0, "model fault: gone")];
        assert_eq!(found, expected);
        assert!(faults[1].href.contains("task%2D00001"), "{faults:?}");
    }
}
