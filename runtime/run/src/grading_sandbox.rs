//! The sandbox in which a patch is graded, and the operations that run in it.

use async_trait::async_trait;
use proctor_grade::{
    FreshSandboxes, FrozenIds, GradeOptions, GradingResult, find_impossible_variants, freeze_ids,
    procedure::{OfficialRun, procedure_commands, run_official},
    run_full_suite,
};
use proctor_sandbox_api::{Backend, PreparedEnvironment, Sandbox};
use proctor_setup::{LayerFindings, Preparation, Purpose, ReadySandbox};
use proctor_types::{Fault, Impossible, Noise, SandboxCounts, SandboxSpec, Task};

use crate::{
    CancelSignal, Capacity, CapacityPermit,
    noise::{CounterDelta, build_noise, describe_limits},
    task_sandbox::{check_requirements, environment_key, environment_record},
};

/// Policy names in a verdict.
pub(crate) const STRICT_POLICY: &str = "strict";
pub(crate) const OFFICIAL_POLICY: &str = "official";

/// Adds the grading sandbox's noise measurements to the verdict.
pub(crate) fn add_noise(
    mut grading_result: GradingResult,
    policy: &str,
    noise: Noise,
) -> GradingResult {
    // If the sandbox's limits may have caused the policy's verdict, mention them in the reason.
    if let Some(found) = grading_result.verdict.policies.get_mut(policy)
        && !found.resolved
        && let Some(limits) = describe_limits(&noise.sandbox)
    {
        found.why.push_str(&format!("; {limits}"));
    }
    grading_result.verdict.noise.insert(policy.to_owned(), noise);
    grading_result
}

/// A sandbox in which a patch is graded. Its environment and limits are those of the trial's
/// sandbox.
pub struct GradingSandbox<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a PreparedEnvironment,
    /// The copies of the task's secrets in the environment. They are hidden from the tests, as they
    /// were from the agent.
    pub findings: &'a LayerFindings,
    pub limits: &'a SandboxSpec,
    /// CPUs and memory of this machine that are reserved while the sandbox is open.
    pub reservation: &'a SandboxSpec,
    pub purpose: String,
    pub cancel: &'a CancelSignal,
    /// The CPUs and memory that all grading sandboxes of the run share.
    pub capacity: &'a Capacity,
}

impl GradingSandbox<'_> {
    /// Reserves CPUs and memory for the sandbox. Once the run is winding down, a caller that would
    /// have to wait gets a fault instead. Otherwise, hundreds of waiting callers would delay the
    /// end of the run for hours.
    pub(crate) async fn reserve_capacity(&self) -> Result<CapacityPermit, Fault> {
        if let Some(share) = self.capacity.try_reserve(self.reservation) {
            return Ok(share);
        }
        tokio::select! {
            share = self.capacity.reserve(self.reservation) => share,
            () = self.cancel.wait_for_wind_down() => Err(CancelSignal::cancelled_fault()),
        }
    }

    /// Finds the IDs of the tests in the task's files by running these files on the unmasked source
    /// in a separate sandbox.
    pub(crate) async fn freeze_tests(&self, task: &Task) -> Result<FrozenIds, Fault> {
        let _share = self.reserve_capacity().await?;
        let ReadySandbox { sandbox, hidden_copies: hidden } =
            self.open(task, Purpose::Testing).await?;
        let frozen = tokio::select! {
            frozen = freeze_ids(sandbox.handle(), task, &hidden, None) => frozen,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        close_and_return(sandbox, frozen).await
    }

    /// Returns every test of the repository that passes on the unmasked source. The caller must
    /// hold a capacity permit.
    pub(crate) async fn find_passing_tests(&self, task: &Task) -> Result<Vec<String>, Fault> {
        let ReadySandbox { sandbox, hidden_copies: hidden } =
            self.open(task, Purpose::Testing).await?;
        let found = tokio::select! {
            found = Box::pin(run_full_suite(sandbox.handle(), task, &hidden)) => found,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        close_and_return(sandbox, found).await
    }

    /// Returns changes to the tests' expectations that make the task impossible.
    pub(crate) async fn find_impossible_variants(
        &self,
        task: &Task,
    ) -> Result<Vec<Impossible>, Fault> {
        let _share = self.reserve_capacity().await?;
        let ReadySandbox { sandbox, hidden_copies: hidden } =
            self.open(task, Purpose::Testing).await?;
        let found = tokio::select! {
            found = Box::pin(find_impossible_variants(sandbox.handle(), task, &hidden)) => found,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        close_and_return(sandbox, found).await
    }

    /// Adds a description of the grading environment to a grading's result.
    pub(crate) fn with_environment_record(
        &self,
        mut grading_result: GradingResult,
        task: &Task,
    ) -> GradingResult {
        let record = environment_record(self.environment, task, self.limits);
        grading_result.verdict.environment = Some(record);
        grading_result
    }

    pub(crate) async fn grade_strict(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<GradingResult, Fault> {
        let ReadySandbox { sandbox, hidden_copies: hidden } =
            self.open(task, Purpose::Testing).await?;
        let prepared = environment_key(self.backend, self.environment, self.findings);
        let options = GradeOptions {
            hidden_copies: hidden,
            preparation_key: Some(prepared),
            ..options.clone()
        };
        let (graded, counts) = {
            let again = RegradeSandboxes { grading_sandbox: self, task };
            let grading = proctor_grade::grade_with_fresh_sandboxes(
                sandbox.handle(),
                Some(&again),
                task,
                patch,
                &options,
            );
            let graded = Box::pin(grading);
            self.measure_grading(sandbox.as_ref(), graded).await
        };
        let noise = build_noise(counts, None, None)?;
        close_and_return(sandbox, graded.map(|graded| add_noise(graded, STRICT_POLICY, noise)))
            .await
    }

    /// Grades a patch and returns the sandbox as the tests left it. Discards the verdict, because
    /// the caller already has one.
    pub(crate) async fn grade_and_keep_open(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Box<dyn Sandbox>, Fault> {
        let ReadySandbox { sandbox, hidden_copies: hidden } =
            self.open(task, Purpose::Testing).await?;
        let options = GradeOptions { hidden_copies: hidden, ..options.clone() };
        let graded = proctor_grade::grade(sandbox.handle(), task, patch, &options).await;
        match graded {
            Ok(_) => Ok(sandbox),
            Err(fault) => close_and_return(sandbox, Err(fault)).await,
        }
    }

    /// Runs the task's benchmark procedure. Returns `None` if it has none.
    pub(crate) async fn grade_official(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Option<(OfficialRun, Noise)>, Fault> {
        let Some(commands) = procedure_commands(task)? else { return Ok(None) };
        let purpose = Purpose::Procedure { commands: &commands };
        let ReadySandbox { sandbox, hidden_copies: hidden } = self.open(task, purpose).await?;
        let options = GradeOptions { hidden_copies: hidden, ..options.clone() };
        let (run, counts) = {
            let run = Box::pin(run_official(sandbox.handle(), task, patch, &options));
            self.measure_grading(sandbox.as_ref(), run).await
        };
        let noise = build_noise(counts, None, None)?;
        close_and_return(sandbox, run.map(|run| run.map(|run| (run, noise)))).await
    }

    /// Runs a grading unless the run is cancelled, and reads the sandbox's counters before and
    /// after it. Pass a boxed future: a grading future is so large that moving it would overflow a
    /// thread's stack.
    pub(crate) async fn measure_grading<T>(
        &self,
        sandbox: &dyn Sandbox,
        grading: impl Future<Output = Result<T, Fault>>,
    ) -> (Result<T, Fault>, SandboxCounts) {
        let delta = CounterDelta::new(sandbox);
        delta.begin().await;
        let graded = tokio::select! {
            graded = grading => graded,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        (graded, delta.end().await.unwrap_or_default())
    }

    pub(crate) async fn open(
        &self,
        task: &Task,
        purpose: Purpose<'_>,
    ) -> Result<ReadySandbox, Fault> {
        let preparation = Preparation {
            backend: self.backend,
            environment: self.environment,
            task,
            findings: self.findings,
            limits: self.limits,
            mounts: &[],
            label: self.purpose.clone(),
        };
        check_requirements(preparation.open(purpose).await?, task).await
    }
}

/// Opens the sandboxes in which tests are rerun. They use the first sandbox's capacity permit,
/// because that sandbox is idle by then.
struct RegradeSandboxes<'s, 'a> {
    grading_sandbox: &'s GradingSandbox<'a>,
    task: &'s Task,
}

#[async_trait]
impl FreshSandboxes for RegradeSandboxes<'_, '_> {
    async fn open(&self) -> Result<Box<dyn Sandbox>, Fault> {
        Ok(self.grading_sandbox.open(self.task, Purpose::Testing).await?.sandbox)
    }
}

/// Closes a sandbox and returns `result`, even if closing fails.
pub(crate) async fn close_and_return<T>(
    mut sandbox: Box<dyn Sandbox>,
    result: Result<T, Fault>,
) -> Result<T, Fault> {
    if let Err(fault) = sandbox.close().await {
        tracing::warn!(%fault, "could not close a grading sandbox; the next run removes it");
    }
    result
}
