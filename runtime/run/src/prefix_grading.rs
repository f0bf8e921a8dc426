//! Grades the state of a trial after a step, without writing to the trial's record.

use proctor_types::{Arm, Fault, FaultCause, FaultLayer, TrialId, Verdict};

use crate::{PlannedTask, RunContext, grading::grade_trial, halts::TrialLocation};

/// Returns the verdict of a patch in the trial's own environment, and whether a grading ran. A
/// cached verdict needs no grading. Faults are retried as in a trial.
///
/// # Errors
/// Returns a permanent fault, which means that there is no verdict, not that the patch failed.
pub async fn grade_prefix(
    context: &RunContext,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
    patch: &[u8],
) -> Result<(Verdict, bool), Fault> {
    let affected = TrialLocation::new(arm, id);
    let backend = context.backend(arm.sandbox.kind)?;
    let mut done = 0;
    loop {
        done += 1;
        let fault = match grade_trial(context, id, planned_task, arm, patch).await {
            Ok((graded, fresh)) => return Ok((graded.verdict, fresh)),
            Err(fault) => fault,
        };
        if context.cancel.is_stopping() {
            return Err(fault);
        }
        if fault.layer == FaultLayer::Environment && fault.cause == FaultCause::Gone {
            context.environments.forget(backend.as_ref(), &planned_task.task).await;
        }
        let fault = context.wait_for_back_end(backend.as_ref(), &affected, fault).await;
        if !context.fault_policy.should_retry(&fault, done) {
            return Err(fault);
        }
        context.wait_before_retry(context.fault_policy.retry_delay(done)).await;
        if context.cancel.is_stopping() {
            return Err(fault);
        }
    }
}
