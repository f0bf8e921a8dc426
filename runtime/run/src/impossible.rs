//! Finds test expectations that can be changed so that only a cheating agent can pass the tests.

use proctor_types::{Arm, Fault, Impossible, TrialId};

use crate::{
    GradingSandbox, PlannedTask, RunContext,
    fault_handling::TrialEnvironment,
    task_sandbox::{reserved_limits, sandbox_limits},
};

/// Returns changed expectations that make the task impossible, starting with the best one. Writes
/// nothing to the run's record.
///
/// # Errors
/// Returns any fault that can occur while grading.
pub async fn find_impossible_variants(
    context: &RunContext,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
) -> Result<Vec<Impossible>, Fault> {
    let backend = context.backend(arm.sandbox.kind)?.as_ref();
    let TrialEnvironment { planned_task: planned, environment, findings } =
        context.prepare_environment(id, planned_task, arm).await?;
    let task = planned.task.as_ref();
    let handle = GradingSandbox {
        backend,
        environment: &environment,
        findings: &findings,
        limits: &sandbox_limits(arm, task),
        reservation: &reserved_limits(arm, task),
        purpose: format!("reading the tests of {}", task.id),
        cancel: &context.cancel,
        capacity: &context.capacity,
    };
    handle.find_impossible_variants(task).await
}
