//! Grades patches. Each grading uses a fresh sandbox of the task's environment.

use std::collections::BTreeSet;

use async_trait::async_trait;
use proctor_grade::{
    ExpectedEvidence, FreshSandboxes, FrozenIds, GradeOptions, GradingResult, expected_of_gold,
    find_impossible_variants, freeze,
    procedure::{
        OfficialRun, has_official_run, is_official_only, procedure_commands, run_official,
    },
    run_full_suite,
};
use proctor_sandbox_api::{Backend, PreparedEnvironment, Sandbox};
use proctor_setup::{LayerFindings, PREPARATION, Preparation, Purpose, ReadySandbox};
use proctor_types::{
    Arm, EnvironmentRecord, Fault, FlakePolicy, Impossible, Layer, Noise, SandboxCounts,
    SandboxSpec, Task, TrialId, Verdict, cpu_variables, sha256_hex,
};

use crate::{
    CancelSignal, Capacity, CapacityPermit, PlannedTask, RunContext, VerdictCache,
    drive::{reserved_limits, sandbox_limits},
    fault_handling::TrialEnvironment,
    harbor,
    noise::{CounterDelta, describe_limits, noise},
    wide_grading::add_wide,
};

/// The sandbox for a grading, with the same environment and limits as the trial's.
pub struct GradingSandbox<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a PreparedEnvironment,
    /// Copies of the task's secrets in the environment. They are hidden from the grading, as they
    /// are from the agent.
    pub findings: &'a LayerFindings,
    pub limits: &'a SandboxSpec,
    /// Share of the machine that is reserved while the sandbox is open.
    pub reserved: &'a SandboxSpec,
    pub purpose: String,
    pub cancel: &'a CancelSignal,
    /// Capacity shared by all gradings.
    pub capacity: &'a Capacity,
}

/// Grades in a sandbox. If the task has a benchmark procedure, also runs that procedure in a
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
            // Release each share as soon as its grading finishes.
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

/// Policy names in a verdict.
pub(crate) const STRICT: &str = "strict";
const OFFICIAL: &str = "official";

/// Returns the environment record of the task's sandbox.
pub(crate) fn environment_record(
    environment: &PreparedEnvironment,
    task: &Task,
    limits: &SandboxSpec,
) -> EnvironmentRecord {
    EnvironmentRecord {
        user: task.user.clone(),
        // Cannot fail here: opening the sandbox already read the table.
        cpu_variables: cpu_variables(limits.cpus).unwrap_or_default(),
        ..environment.record()
    }
}

/// Adds the grading sandbox's noise measurements to the verdict.
pub(crate) fn add_noise(mut graded: GradingResult, policy: &str, noise: Noise) -> GradingResult {
    // If the sandbox's limits may have decided the policy's verdict, say so.
    if let Some(found) = graded.verdict.policies.get_mut(policy)
        && !found.resolved
        && let Some(limits) = describe_limits(&noise.sandbox)
    {
        found.why.push_str(&format!("; {limits}"));
    }
    graded.verdict.noise.insert(policy.to_owned(), noise);
    graded
}

impl GradingSandbox<'_> {
    /// Reserves a share of the machine. Once the run winds down, a grading that would have to wait
    /// fails instead: a queue of hundreds would delay the end of the run for hours.
    pub(crate) async fn reserve_capacity(&self) -> Result<CapacityPermit, Fault> {
        if let Some(share) = self.capacity.try_reserve(self.reserved) {
            return Ok(share);
        }
        tokio::select! {
            share = self.capacity.reserve(self.reserved) => share,
            () = self.cancel.wait_for_wind_down() => Err(CancelSignal::cancelled_fault()),
        }
    }

    /// Finds the tests in the task's files by running them on the unmasked source in a separate
    /// sandbox.
    pub(crate) async fn freeze(&self, task: &Task) -> Result<FrozenIds, Fault> {
        let _share = self.reserve_capacity().await?;
        let ReadySandbox { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let frozen = tokio::select! {
            frozen = freeze(sandbox.handle(), task, &hidden, None) => frozen,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        close_and_return(sandbox, frozen).await
    }

    /// Returns every test of the repository that passes on the unmasked source. The caller must
    /// hold a share of the machine.
    pub(crate) async fn suite(&self, task: &Task) -> Result<Vec<String>, Fault> {
        let ReadySandbox { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let found = tokio::select! {
            found = Box::pin(run_full_suite(sandbox.handle(), task, &hidden)) => found,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        close_and_return(sandbox, found).await
    }

    /// Returns the wrong expectations that make the task impossible.
    pub(crate) async fn find_impossible(&self, task: &Task) -> Result<Vec<Impossible>, Fault> {
        let _share = self.reserve_capacity().await?;
        let ReadySandbox { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let found = tokio::select! {
            found = Box::pin(find_impossible_variants(sandbox.handle(), task, &hidden)) => found,
            () = self.cancel.wait_for_stop() => Err(CancelSignal::cancelled_fault()),
        };
        close_and_return(sandbox, found).await
    }

    /// Adds the environment record to a grading.
    pub(crate) fn with_environment_record(
        &self,
        mut graded: GradingResult,
        task: &Task,
    ) -> GradingResult {
        let record = environment_record(self.environment, task, self.limits);
        graded.verdict.environment = Some(record);
        graded
    }

    pub(crate) async fn grade_strict(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<GradingResult, Fault> {
        let ReadySandbox { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let prepared = environment_key(self.backend, self.environment, self.findings);
        let options = GradeOptions { hidden, prepared: Some(prepared), ..options.clone() };
        let (graded, counts) = {
            let again = RegradeSandboxes { handle: self, task };
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
        let noise = noise(counts, None, None)?;
        close_and_return(sandbox, graded.map(|graded| add_noise(graded, STRICT, noise))).await
    }

    /// Grades a patch and returns the sandbox as the tests left it. The verdict is dropped because
    /// the caller already has it.
    pub(crate) async fn grade_and_keep_open(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Box<dyn Sandbox>, Fault> {
        let ReadySandbox { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let options = GradeOptions { hidden, ..options.clone() };
        let graded = proctor_grade::grade(sandbox.handle(), task, patch, &options).await;
        match graded {
            Ok(_) => Ok(sandbox),
            Err(fault) => close_and_return(sandbox, Err(fault)).await,
        }
    }

    async fn grade_official(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Option<(OfficialRun, Noise)>, Fault> {
        let Some(commands) = procedure_commands(task)? else { return Ok(None) };
        let purpose = Purpose::Procedure { commands: &commands };
        let ReadySandbox { sandbox, hidden } = self.open(task, purpose).await?;
        let options = GradeOptions { hidden, ..options.clone() };
        let (run, counts) = {
            let run = Box::pin(run_official(sandbox.handle(), task, patch, &options));
            self.measure_grading(sandbox.as_ref(), run).await
        };
        let noise = noise(counts, None, None)?;
        close_and_return(sandbox, run.map(|run| run.map(|run| (run, noise)))).await
    }

    /// Grades unless the run is cancelled, and reads the sandbox's counters before and after. Pass
    /// a boxed future: a grading future is so large that moving it would overflow a thread's
    /// stack.
    pub(crate) async fn measure_grading<T>(
        &self,
        sandbox: &dyn Sandbox,
        grades: impl Future<Output = Result<T, Fault>>,
    ) -> (Result<T, Fault>, SandboxCounts) {
        let delta = CounterDelta::new(sandbox);
        delta.begin().await;
        let graded = tokio::select! {
            graded = grades => graded,
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

/// Opens sandboxes for regrading. They use the first sandbox's share, which is idle by then.
struct RegradeSandboxes<'s, 'a> {
    handle: &'s GradingSandbox<'a>,
    task: &'s Task,
}

#[async_trait]
impl FreshSandboxes for RegradeSandboxes<'_, '_> {
    async fn open(&self) -> Result<Box<dyn Sandbox>, Fault> {
        Ok(self.handle.open(self.task, Purpose::Testing).await?.sandbox)
    }
}

/// Checks that the sandbox has the files and commands that its task names. Closes it if not.
pub(crate) async fn check_requirements(
    mut ready: ReadySandbox,
    task: &Task,
) -> Result<ReadySandbox, Fault> {
    match proctor_setup::check_workdir_and_user(ready.sandbox.handle(), task).await {
        Ok(()) => Ok(ready),
        Err(fault) => {
            // Report the first fault, not a failure to close.
            let _ = ready.sandbox.close().await;
            Err(fault)
        }
    }
}

/// Closes a sandbox and returns `found`, even if closing fails.
pub(crate) async fn close_and_return<T>(
    mut sandbox: Box<dyn Sandbox>,
    found: Result<T, Fault>,
) -> Result<T, Fault> {
    if let Err(fault) = sandbox.close().await {
        tracing::warn!(%fault, "could not close a grading sandbox; the next run removes it");
    }
    found
}

/// Grades a trial's patch once, or returns the cached verdict. If only unreliable tests failed and
/// the run uses voting, repeats the grading and takes the majority. Also returns whether tests
/// ran.
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
    // Certificates refer to the task as written, so use its digest from before preparation.
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
    options.frozen = context.frozen.get(&handle(), task).await?;
    options.expected = context.frozen.cached_expected(&handle(), task).await?.unwrap_or_default();
    if context.cancel.is_winding_down() {
        return Err(CancelSignal::cancelled_fault());
    }
    let mut graded = grade_patch(handle(), task, patch, &options).await?;
    if let Some(expected) = expected(context, &handle(), task, (patch, &graded), &options).await? {
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

/// Returns a key for everything in a sandbox that affects a result, except its limits: the base,
/// the preparation and the hidden files.
pub(crate) fn environment_key(
    backend: &dyn Backend,
    environment: &PreparedEnvironment,
    findings: &LayerFindings,
) -> String {
    let parts = [
        backend.name(),
        &environment.digest,
        PREPARATION,
        &backend.agent_digest(),
        &findings.digest(),
    ];
    sha256_hex(parts.join("\n").as_bytes())
}

/// Returns the part of a grading's evidence that the task itself causes.
async fn expected(
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
    context.frozen.expected(handle, task, (patch, graded), options).await
}

/// Whether tests failed and all of them are in `unreliable`.
fn failed_only_unreliable(verdict: &Verdict, unreliable: &BTreeSet<String>) -> bool {
    let failed = || verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    !verdict.resolved && failed().next().is_some() && failed().all(|id| unreliable.contains(id))
}
