//! Trials that a limit ended.

use proctor_types::{BudgetKind, Ending, plural};

use crate::{TaskReport, TrialResult, text::percent};

/// Failures that ended at a limit, as a share of all failures: above this the score tells of the limit, too.
const MANY: f64 = 0.05;

/// The limit of its own that ended a trial. One that trials share says nothing of it.
pub(crate) fn limit_of(trial: &TrialResult) -> Option<BudgetKind> {
    match &trial.outcome.as_ref()?.ending {
        Ending::Budget { budget, scope } if scope.is_trial() => Some(*budget),
        _ => None,
    }
}

/// What a reader must know where more than a few of an arm's failures ended at a limit.
pub(crate) fn warning<'a>(
    arm: &str,
    trials: impl Iterator<Item = &'a TaskReport>,
) -> Option<String> {
    let failed: Vec<_> = trials.filter(|trial| trial.resolved == Some(false)).collect();
    let mut bound: Vec<String> =
        failed.iter().filter_map(|trial| Some(trial.limit?.to_string())).collect();
    let (all, limited) = (failed.len(), bound.len());
    if limited as f64 <= MANY * all as f64 {
        return None;
    }
    bound.sort();
    let kinds: Vec<String> = bound
        .chunk_by(|one, next| one == next)
        .map(|same| format!("{} at {}", same.len(), same[0]))
        .collect();
    let share = percent(limited as f64 / all as f64);
    Some(format!(
        "{arm}: warning: {limited} of {} ({share}) ended at a limit ({}); the limit is part of this score.",
        plural(all, "failure"),
        kinds.join(", ")
    ))
}
