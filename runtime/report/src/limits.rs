//! Trials that a limit ended.

use proctor_types::{BudgetKind, Ending, ExitCause, NoisePolicy, SandboxLimit, plural};

use crate::{TaskReport, TrialResult, text::percent};

/// The trial's own limit that ended it. A shared limit says nothing about the trial.
pub(crate) fn limit_of(trial: &TrialResult) -> Option<BudgetKind> {
    match &trial.outcome.as_ref()?.ending {
        Ending::Budget { budget, scope } if scope.is_trial() => Some(*budget),
        _ => None,
    }
}

/// A warning if more than a few of an arm's failures ended at a limit.
pub(crate) fn warning<'a>(
    arm: &str,
    trials: impl Iterator<Item = &'a TaskReport>,
) -> Option<String> {
    let failed: Vec<_> = trials.filter(|trial| trial.resolved == Some(false)).collect();
    let mut bound: Vec<String> = failed.iter().filter_map(|trial| limit_at(trial)).collect();
    let (all, limited) = (failed.len(), bound.len());
    // An unreadable table is reported wherever a trial is run; a report then warns about every
    // trial.
    let many = NoisePolicy::shipped().map_or(0.0, |policy| policy.failures_at_a_limit);
    if limited as f64 <= many * all as f64 {
        return None;
    }
    bound.sort();
    let kinds: Vec<String> = bound
        .chunk_by(|one, next| one == next)
        .map(|same| format!("{} at {}", same.len(), same[0]))
        .collect();
    let share = percent(limited as f64 / all as f64);
    // A trial may recover from what its sandbox refused, so this does not claim that it ended
    // there.
    let how = match failed.iter().any(|trial| trial.limit.is_none() && limit_at(trial).is_some()) {
        true => "ended at a limit or hit one",
        false => "ended at a limit",
    };
    Some(format!(
        "{arm}: warning: {limited} of {} ({share}) {how} ({}); the limit is part of this score.",
        plural(all, "failure"),
        kinds.join(", ")
    ))
}

/// A warning if the scaffold itself ended more than a few of an arm's trials. They are scored, but say nothing about
/// the model.
pub(crate) fn scaffold_warning<'a>(
    arm: &str,
    trials: impl Iterator<Item = &'a TaskReport>,
) -> Option<String> {
    let trials: Vec<_> = trials.filter(|trial| trial.resolved.is_some()).collect();
    let mut causes: Vec<String> =
        trials.iter().filter_map(|trial| scaffold_failure(trial)).collect();
    let many = NoisePolicy::shipped().map_or(0.0, |policy| policy.scaffold_failures);
    if causes.len() as f64 <= many * trials.len() as f64 {
        return None;
    }
    let failed = causes.len();
    causes.sort();
    let kinds: Vec<String> = causes
        .chunk_by(|one, next| one == next)
        .map(|same| format!("{} {}", same.len(), same[0].replace('_', " ")))
        .collect();
    let share = percent(failed as f64 / trials.len() as f64);
    Some(format!(
        "{arm}: warning: the scaffold failed in {failed} of {} ({share}: {}); these trials are scored.",
        plural(trials.len(), "trial"),
        kinds.join(", ")
    ))
}

/// How the scaffold ended a trial on its own. An empty turn is the model's doing, and a scaffold
/// that finished has not failed.
fn scaffold_failure(trial: &TaskReport) -> Option<String> {
    let failed = |cause: &ExitCause| !matches!(cause, ExitCause::EmptyTurn | ExitCause::Finished);
    trial.cause.filter(failed).map(|cause| cause.to_string())
}

/// Whether work may have failed at a limit. A command's time limit or a CPU quota only slows it
/// down; a kernel kill for memory or a full disk may end it.
pub(crate) fn may_end(limit: &SandboxLimit) -> bool {
    matches!(limit, SandboxLimit::Memory | SandboxLimit::Processes | SandboxLimit::Disk)
}

/// The limit at which a failure ended, or may have ended.
fn limit_at(trial: &TaskReport) -> Option<String> {
    let of_sandbox = || {
        let touched = trial.touched.iter().find(|limit| may_end(limit));
        touched.map(ToString::to_string)
    };
    trial.limit.map(|limit| limit.to_string()).or_else(of_sandbox)
}
