//! Grades patches. Each grading uses a fresh sandbox of the task's environment.

use std::collections::BTreeSet;

use proctor_grade::{
    ExpectedEvidence, GradeOptions, GradingResult, expected_of_gold,
    procedure::{has_official_run, is_official_only},
};
use proctor_types::{Arm, Fault, FlakePolicy, Layer, Task, TrialId, Verdict};

use crate::{
    CancelSignal, GradingSandbox, PlannedTask, RunContext, VerdictCache,
    fault_handling::TrialEnvironment,
    grading_sandbox::{OFFICIAL, add_noise},
    harbor,
    task_sandbox::{environment_key, reserved_limits, sandbox_limits},
    wide_grading::add_wide,
};

/// Grades a patch in a sandbox. If the task has a benchmark procedure, this procedure runs in a
/// second sandbox, because the first grading leaves files behind. Both sandboxes run concurrently
/// if the machine has capacity for the second; otherwise they run one after the other.
pub async fn grade_patch(
    handle: GradingSandbox<'_>,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<GradingResult, Fault> {
    let share = handle.reserve_capacity().await?;
    if is_official_only(task) {
        let run = handle.grade_official(task, patch, options).await?;
        let (run, noise) = run
            .ok_or_else(|| Fault::new(Layer::Grade, "the result of the official run is missing"))?;
        return Ok(add_noise(
            handle.with_environment_record(run.into_official_result(task)?, task),
            OFFICIAL,
            noise,
        ));
    }
    let strict = handle.grade_strict(task, patch, options);
    let second = || handle.capacity.try_reserve(handle.reserved);
    let official = handle.grade_official(task, patch, options);
    let (graded, run) = match has_official_run(task).then(second) {
        None => (strict.await?, None),
        Some(Some(second)) => {
            // Release each permit as soon as its grading finishes.
            let strict = async move {
                let _share = share;
                strict.await
            };
            let official = async move {
                let _share = second;
                official.await
            };
            let (graded, run) = tokio::join!(strict, official);
            (graded?, run?)
        }
        Some(None) => (strict.await?, official.await?),
    };
    let graded = match run {
        Some((run, noise)) => {
            add_noise(graded.merge_official(run, &options.expected), OFFICIAL, noise)
        }
        None => graded,
    };
    Ok(handle.with_environment_record(graded, task))
}

/// Grades a trial's patch, or returns the cached verdict. If only unreliable tests failed and the
/// run uses voting, repeats the grading and takes the majority. Also returns whether a grading ran.
pub(crate) async fn grade_trial(
    context: &RunContext,
    id: &TrialId,
    planned: &PlannedTask,
    arm: &Arm,
    patch: &[u8],
) -> Result<(GradingResult, bool), Fault> {
    if planned.task.harbor.is_some() {
        let graded = Box::pin(harbor::grade(context, id, planned, arm, patch)).await?;
        return Ok((graded, true));
    }
    let backend = context.backend(arm.sandbox.kind)?;
    let nothing = BTreeSet::new();
    // Certificates identify a task by the digest that it has before preparation.
    let unreliable = context.unreliable.get(&planned.task.digest()).unwrap_or(&nothing);
    let TrialEnvironment { planned, environment, findings } =
        context.environment(id, planned, arm).await?;
    let task = planned.task.as_ref();
    let mut options = context.grading.clone();
    if context.flaky == FlakePolicy::Quarantine {
        options.quarantine.clone_from(unreliable);
    }
    let prepared = environment_key(backend.as_ref(), &environment, &findings);
    let (limits, reserved) = (sandbox_limits(arm, task), reserved_limits(arm, task));
    let told = (&options.quarantine, context.wide);
    let key = VerdictCache::key(&prepared, &limits, task, patch, told)?;
    if let Some(graded) = context.verdicts.as_ref().and_then(|verdicts| verdicts.find(&key)) {
        return Ok((graded, false));
    }
    let handle = || GradingSandbox {
        backend: backend.as_ref(),
        environment: &environment,
        findings: &findings,
        limits: &limits,
        reserved: &reserved,
        purpose: format!("grading {id}"),
        cancel: &context.cancel,
        capacity: &context.capacity,
    };
    options.frozen_ids = context.frozen.get(&handle(), task).await?;
    options.expected =
        context.frozen.cached_expected_evidence(&handle(), task).await?.unwrap_or_default();
    if context.cancel.is_winding_down() {
        return Err(CancelSignal::cancelled_fault());
    }
    let mut graded = grade_patch(handle(), task, patch, &options).await?;
    if let Some(expected) =
        expected_evidence(context, &handle(), task, (patch, &graded), &options).await?
    {
        options.expected = expected;
        graded = grade_patch(handle(), task, patch, &options).await?;
    }
    let grade = async || grade_patch(handle(), task, patch, &options).await;
    if context.flaky == FlakePolicy::Vote && failed_only_unreliable(&graded.verdict, unreliable) {
        let (second, third) = (grade().await?, grade().await?);
        if second.verdict.resolved && third.verdict.resolved {
            graded = second;
        }
    }
    if context.wide {
        Box::pin(add_wide(context, &handle(), task, (patch, &options), &mut graded)).await?;
    }
    if let Some(verdicts) = &context.verdicts {
        verdicts.store(&key, &graded);
    }
    Ok((graded, true))
}

/// Returns the evidence that the task's own gold patch produces, if it overlaps with the grading's
/// evidence.
async fn expected_evidence(
    context: &RunContext,
    handle: &GradingSandbox<'_>,
    task: &Task,
    (patch, graded): (&[u8], &GradingResult),
    options: &GradeOptions,
) -> Result<Option<ExpectedEvidence>, Fault> {
    if is_official_only(task) || expected_of_gold(graded)?.is_empty() {
        return Ok(None);
    }
    let _share = handle.reserve_capacity().await?;
    context.frozen.expected_evidence(handle, task, (patch, graded), options).await
}

/// Whether tests failed and all of them are in `unreliable`.
fn failed_only_unreliable(verdict: &Verdict, unreliable: &BTreeSet<String>) -> bool {
    let failed = || verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    !verdict.resolved && failed().next().is_some() && failed().all(|id| unreliable.contains(id))
}
