//! Explains which trials of a run have no verdict, and why, after the run has stopped.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use proctor_report::error_key;
use proctor_types::count_with_noun;

use super::{
    pages::trial_name, planned_trials, results::RunResults, urls::UrlForm, viewed_run::ViewedRun,
};
use crate::html::RunFault;

/// Maximum number of different faults listed.
const MAX_FAULTS: usize = 100;
/// The kind of a trial whose grading was not requested. A run may plan this.
const NOT_REQUESTED: &str = "grading not requested";

/// The trials without a verdict. Both fields are empty if there are none, or if the run is still in
/// progress.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VerdictGap {
    /// The number of trials by kind, as a sentence.
    pub summary: String,
    /// The faults that ended trials or their grading, with the first trial and the number of trials of
    /// each.
    pub faults: Vec<RunFault>,
}

pub fn verdict_gap(run: &ViewedRun, results: &RunResults, form: UrlForm) -> VerdictGap {
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
    fn gap_counts_trials_without_a_verdict_by_kind() {
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
