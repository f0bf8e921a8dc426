//! Grades patches. Each grading uses a fresh sandbox of the task's environment.

use std::collections::BTreeSet;

use proctor_grade::{
    ExpectedEvidence, GradeOptions, GradingResult, expected_gold_evidence,
    procedure::{has_official_run, is_official_only},
};
use proctor_types::{Arm, Fault, FaultLayer, FlakePolicy, Task, TrialId, Verdict};

use crate::{
    CancelSignal, GradingSandbox, PlannedTask, RunContext, VerdictCache,
    fault_handling::TrialEnvironment,
    grading_sandbox::{OFFICIAL_POLICY, add_noise},
    harbor,
    task_sandbox::{environment_key, reserved_limits, sandbox_limits},
    wide_grading::add_wide,
};

/// Grades a patch in a sandbox. If the task has a benchmark procedure, this procedure runs in a
/// second sandbox, because the first grading leaves files behind. Both sandboxes run concurrently
/// if the machine has capacity for the second; otherwise they run one after the other.
pub async fn grade_patch(
    grading_sandbox: GradingSandbox<'_>,
    task: &Task,
    patch: &[u8],
    options: &GradeOptions,
) -> Result<GradingResult, Fault> {
    let share = grading_sandbox.reserve_capacity().await?;
    if is_official_only(task) {
        let run = grading_sandbox.grade_official(task, patch, options).await?;
        let (run, noise) = run.ok_or_else(|| {
            Fault::new(FaultLayer::Grade, "the result of the official run is missing")
        })?;
        return Ok(add_noise(
            grading_sandbox.with_environment_record(run.into_official_result(task)?, task),
            OFFICIAL_POLICY,
            noise,
        ));
    }
    let strict = grading_sandbox.grade_strict(task, patch, options);
    let second = || grading_sandbox.capacity.try_reserve(grading_sandbox.reservation);
    let official = grading_sandbox.grade_official(task, patch, options);
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
        Some((run, noise)) => add_noise(
            graded.merge_official(run, &options.expected_evidence),
            OFFICIAL_POLICY,
            noise,
        ),
        None => graded,
    };
    Ok(grading_sandbox.with_environment_record(graded, task))
}

/// Grades a trial's patch, or returns the cached verdict. If only unreliable tests failed and the
/// run uses voting, repeats the grading and takes the majority. Also returns whether a grading ran.
pub(crate) async fn grade_trial(
    context: &RunContext,
    id: &TrialId,
    planned_task: &PlannedTask,
    arm: &Arm,
    patch: &[u8],
) -> Result<(GradingResult, bool), Fault> {
    if planned_task.task.harbor.is_some() {
        let graded =
            Box::pin(harbor::grade_final_state(context, id, planned_task, arm, patch)).await?;
        return Ok((graded, true));
    }
    let backend = context.backend(arm.sandbox.kind)?;
    let nothing = BTreeSet::new();
    // Certificates identify a task by the digest that it has before preparation.
    let unreliable = context.unreliable_tests.get(&planned_task.task.digest()).unwrap_or(&nothing);
    let TrialEnvironment { planned_task: planned, environment, findings } =
        context.prepare_environment(id, planned_task, arm).await?;
    let task = planned.task.as_ref();
    let mut options = context.grade_options.clone();
    if context.flake_policy == FlakePolicy::Quarantine {
        options.quarantine.clone_from(unreliable);
    }
    let prepared = environment_key(backend.as_ref(), &environment, &findings);
    let (limits, reserved) = (sandbox_limits(arm, task), reserved_limits(arm, task));
    let told = (&options.quarantine, context.includes_wide);
    let key = VerdictCache::key(&prepared, &limits, task, patch, told)?;
    if let Some(graded) = context.verdicts.as_ref().and_then(|verdicts| verdicts.find(&key)) {
        return Ok((graded, false));
    }
    let handle = || GradingSandbox {
        backend: backend.as_ref(),
        environment: &environment,
        findings: &findings,
        limits: &limits,
        reservation: &reserved,
        purpose: format!("grading {id}"),
        cancel: &context.cancel,
        capacity: &context.capacity,
    };
    options.frozen_ids = context.frozen_tests.get(&handle(), task).await?;
    options.expected_evidence =
        context.frozen_tests.cached_expected_evidence(&handle(), task).await?.unwrap_or_default();
    if context.cancel.is_winding_down() {
        return Err(CancelSignal::cancelled_fault());
    }
    let mut graded = grade_patch(handle(), task, patch, &options).await?;
    if let Some(expected) =
        find_expected_evidence(context, &handle(), task, (patch, &graded), &options).await?
    {
        options.expected_evidence = expected;
        graded = grade_patch(handle(), task, patch, &options).await?;
    }
    let grade = async || grade_patch(handle(), task, patch, &options).await;
    if context.flake_policy == FlakePolicy::Vote
        && has_only_unreliable_failures(&graded.verdict, unreliable)
    {
        let (second, third) = (grade().await?, grade().await?);
        if second.verdict.resolved && third.verdict.resolved {
            graded = second;
        }
    }
    if context.includes_wide {
        Box::pin(add_wide(context, &handle(), task, (patch, &options), &mut graded)).await?;
    }
    if let Some(verdicts) = &context.verdicts {
        verdicts.store(&key, &graded);
    }
    Ok((graded, true))
}

/// Returns the evidence that the task's own gold patch produces, if some of it also occurs in the
/// grading result.
async fn find_expected_evidence(
    context: &RunContext,
    grading_sandbox: &GradingSandbox<'_>,
    task: &Task,
    (patch, graded): (&[u8], &GradingResult),
    options: &GradeOptions,
) -> Result<Option<ExpectedEvidence>, Fault> {
    if is_official_only(task) || expected_gold_evidence(graded)?.is_empty() {
        return Ok(None);
    }
    let _share = grading_sandbox.reserve_capacity().await?;
    context.frozen_tests.expected_evidence(grading_sandbox, task, (patch, graded), options).await
}

/// Whether tests failed and all of them are in `unreliable_tests`.
fn has_only_unreliable_failures(verdict: &Verdict, unreliable_tests: &BTreeSet<String>) -> bool {
    let failed = || verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    !verdict.resolved
        && failed().next().is_some()
        && failed().all(|id| unreliable_tests.contains(id))
}
