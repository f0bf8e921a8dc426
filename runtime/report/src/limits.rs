//! Determines which limits ended a trial or may have made it fail.

use proctor_types::{BudgetKind, Ending, SandboxLimit};

use crate::TrialResult;

/// Returns the limit that ended the trial, if it is the trial's own. Shared limits are ignored,
/// because they depend on other trials.
pub(crate) fn own_limit(trial: &TrialResult) -> Option<BudgetKind> {
    match &trial.outcome.as_ref()?.ending {
        Ending::Budget { budget, scope } if scope.is_trial() => Some(*budget),
        _ => None,
    }
}

/// Whether reaching this limit can make a trial or a test fail. A command's time limit or a CPU
/// quota only slows work down, but running out of memory or disk space may end it.
pub(crate) fn can_cause_failure(limit: &SandboxLimit) -> bool {
    matches!(limit, SandboxLimit::Memory | SandboxLimit::Processes | SandboxLimit::Disk)
}
