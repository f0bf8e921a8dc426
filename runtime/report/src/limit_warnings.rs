//! Warnings about trials that ended at a limit.

use proctor_types::{ExitCause, FailureReason, NoisePolicy, count_with_noun};

use crate::{TaskReport, format::format_percent, limits::can_cause_failure};

/// Returns a warning if more than a few of an arm's failed trials ended at a limit.
pub(crate) fn limit_warning<'a>(
    arm: &str,
    trials: impl Iterator<Item = &'a TaskReport>,
) -> Option<String> {
    let failed: Vec<_> = trials.filter(|trial| trial.resolved == Some(false)).collect();
    let mut bound: Vec<String> = failed.iter().filter_map(|trial| failure_limit(trial)).collect();
    let (all, limited) = (failed.len(), bound.len());
    // If the table of thresholds is unreadable, warn as soon as one trial ended at a limit. The
    // read error itself is reported when a trial runs.
    let many = NoisePolicy::shipped().map_or(0.0, |policy| policy.failures_at_a_limit);
    if limited as f64 <= many * all as f64 {
        return None;
    }
    bound.sort();
    let kinds: Vec<String> = bound
        .chunk_by(|one, next| one == next)
        .map(|same| format!("{} at {}", same.len(), same[0]))
        .collect();
    let share = format_percent(limited as f64 / all as f64);
    // A trial may continue after its sandbox hits a limit, so don't claim that every one of these
    // trials ended at a limit.
    let how =
        match failed.iter().any(|trial| trial.limit.is_none() && failure_limit(trial).is_some()) {
            true => "ended at a limit or hit one",
            false => "ended at a limit",
        };
    Some(format!(
        "{arm}: warning: {limited} of {} ({share}) {how} ({}); the score depends on this limit.",
        count_with_noun(all, "failure"),
        kinds.join(", ")
    ))
}

/// Returns a warning if a failure of the scaffold itself ended more than a few of an arm's trials.
/// These trials are scored, but their results say little about the model.
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
    let share = format_percent(failed as f64 / trials.len() as f64);
    Some(format!(
        "{arm}: warning: the scaffold failed in {failed} of {} ({share}: {}); these trials are scored.",
        count_with_noun(trials.len(), "trial"),
        kinds.join(", ")
    ))
}

/// Returns the cause if the trial ended because the scaffold failed. Empty turns don't count,
/// because the model causes them. A scaffold that exited normally hasn't failed.
fn scaffold_failure(trial: &TaskReport) -> Option<String> {
    let failed = |cause: &ExitCause| !matches!(cause, ExitCause::EmptyTurn | ExitCause::Finished);
    trial.cause.filter(failed).map(|cause| cause.to_string())
}

/// Returns the limit that ended a failed trial, or that may have ended it. `None` if none of the
/// trial's tool calls could be parsed, because a larger limit would not have helped.
fn failure_limit(trial: &TaskReport) -> Option<String> {
    if trial.reason == Some(FailureReason::FormatErrors) {
        return None;
    }
    let of_sandbox = || {
        let touched = trial.touched.iter().find(|limit| can_cause_failure(limit));
        touched.map(ToString::to_string)
    };
    trial.limit.map(|limit| limit.to_string()).or_else(of_sandbox)
}
