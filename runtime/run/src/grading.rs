//! Grades patches. Each grading uses a fresh sandbox of the task's environment.

use std::collections::BTreeSet;

use async_trait::async_trait;
use proctor_grade::{
    Expected, FreshSandboxes, Frozen, GradeOptions, Graded, expected_of_gold, freeze, mistakes,
    procedure::{OfficialRun, has_official_run, only_official, procedure, run_official},
    suite,
};
use proctor_sandbox_api::{Backend, Prepared, Sandbox};
use proctor_setup::{LayerFindings, PREPARATION, Preparation, Purpose, Ready};
use proctor_types::{
    Arm, EnvironmentRecord, Fault, FlakePolicy, Impossible, Layer, Noise, SandboxCounts,
    SandboxSpec, Task, TrialId, Verdict, cpu_variables, sha256_hex,
};

use crate::{
    Cancel, Capacity, PlannedTask, RunContext, Share, Verdicts,
    drive::{limits_of, reserved_of},
    harbor,
    noise::{CounterDelta, limits_in_words, noise},
    patience::TrialEnvironment,
    wide::add_wide,
};

/// The sandbox for a grading, with the same environment and limits as the trial's.
pub struct GradingSandbox<'a> {
    pub backend: &'a dyn Backend,
    pub environment: &'a Prepared,
    /// Copies of the task's secrets in the environment. They are hidden from the grading, as they
    /// are from the agent.
    pub findings: &'a LayerFindings,
    pub limits: &'a SandboxSpec,
    /// Share of the machine that is reserved while the sandbox is open.
    pub reserved: &'a SandboxSpec,
    pub purpose: String,
    pub cancel: &'a Cancel,
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
) -> Result<Graded, Fault> {
    let share = handle.share().await?;
    if only_official(task) {
        let run = handle.official(task, patch, options).await?;
        let (run, noise) = run
            .ok_or_else(|| Fault::new(Layer::Grade, "the result of the official run is missing"))?;
        return Ok(measured(handle.named(run.alone(task)?, task), OFFICIAL, noise));
    }
    let strict = handle.strict(task, patch, options);
    let second = || handle.capacity.try_take(handle.reserved);
    let official = handle.official(task, patch, options);
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
        Some((run, noise)) => measured(graded.beside(run, &options.expected), OFFICIAL, noise),
        None => graded,
    };
    Ok(handle.named(graded, task))
}

/// Policy names in a verdict.
pub(crate) const STRICT: &str = "strict";
const OFFICIAL: &str = "official";

/// Returns the environment record of the task's sandbox.
pub(crate) fn environment_record(
    environment: &Prepared,
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
pub(crate) fn measured(mut graded: Graded, policy: &str, noise: Noise) -> Graded {
    // If the sandbox's limits may have decided the policy's verdict, say so.
    if let Some(found) = graded.verdict.policies.get_mut(policy)
        && !found.resolved
        && let Some(limits) = limits_in_words(&noise.sandbox)
    {
        found.why.push_str(&format!("; {limits}"));
    }
    graded.verdict.noise.insert(policy.to_owned(), noise);
    graded
}

impl GradingSandbox<'_> {
    /// Reserves a share of the machine. Once the run winds down, a grading that would have to wait
    /// fails instead: a queue of hundreds would delay the end of the run for hours.
    pub(crate) async fn share(&self) -> Result<Share, Fault> {
        if let Some(share) = self.capacity.try_take(self.reserved) {
            return Ok(share);
        }
        tokio::select! {
            share = self.capacity.take(self.reserved) => share,
            () = self.cancel.winding_down() => Err(Cancel::fault()),
        }
    }

    /// Finds the tests in the task's files by running them on the unmasked source in a separate
    /// sandbox.
    pub(crate) async fn freeze(&self, task: &Task) -> Result<Frozen, Fault> {
        let _share = self.share().await?;
        let Ready { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let frozen = tokio::select! {
            frozen = freeze(sandbox.handle(), task, &hidden, None) => frozen,
            () = self.cancel.told() => Err(Cancel::fault()),
        };
        closed(sandbox, frozen).await
    }

    /// Returns every test of the repository that passes on the unmasked source. The caller must
    /// hold a share of the machine.
    pub(crate) async fn suite(&self, task: &Task) -> Result<Vec<String>, Fault> {
        let Ready { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let found = tokio::select! {
            found = Box::pin(suite(sandbox.handle(), task, &hidden)) => found,
            () = self.cancel.told() => Err(Cancel::fault()),
        };
        closed(sandbox, found).await
    }

    /// Returns the wrong expectations that make the task impossible.
    pub(crate) async fn mistakes(&self, task: &Task) -> Result<Vec<Impossible>, Fault> {
        let _share = self.share().await?;
        let Ready { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let found = tokio::select! {
            found = Box::pin(mistakes(sandbox.handle(), task, &hidden)) => found,
            () = self.cancel.told() => Err(Cancel::fault()),
        };
        closed(sandbox, found).await
    }

    /// Adds the environment record to a grading.
    pub(crate) fn named(&self, mut graded: Graded, task: &Task) -> Graded {
        let record = environment_record(self.environment, task, self.limits);
        graded.verdict.environment = Some(record);
        graded
    }

    pub(crate) async fn strict(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Graded, Fault> {
        let Ready { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let prepared = prepared_environment(self.backend, self.environment, self.findings);
        let options = GradeOptions { hidden, prepared: Some(prepared), ..options.clone() };
        let (graded, counts) = {
            let again = RegradeSandboxes { handle: self, task };
            let grading =
                proctor_grade::grade_with(sandbox.handle(), Some(&again), task, patch, &options);
            let graded = Box::pin(grading);
            self.with_counts(sandbox.as_ref(), graded).await
        };
        let noise = noise(counts, None, None)?;
        closed(sandbox, graded.map(|graded| measured(graded, STRICT, noise))).await
    }

    /// Grades a patch and returns the sandbox as the tests left it. The verdict is dropped because
    /// the caller already has it.
    pub(crate) async fn grade_and_keep_open(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Box<dyn Sandbox>, Fault> {
        let Ready { sandbox, hidden } = self.open(task, Purpose::Testing).await?;
        let options = GradeOptions { hidden, ..options.clone() };
        let graded = proctor_grade::grade(sandbox.handle(), task, patch, &options).await;
        match graded {
            Ok(_) => Ok(sandbox),
            Err(fault) => closed(sandbox, Err(fault)).await,
        }
    }

    async fn official(
        &self,
        task: &Task,
        patch: &[u8],
        options: &GradeOptions,
    ) -> Result<Option<(OfficialRun, Noise)>, Fault> {
        let Some(commands) = procedure(task)? else { return Ok(None) };
        let purpose = Purpose::Procedure { commands: &commands };
        let Ready { sandbox, hidden } = self.open(task, purpose).await?;
        let options = GradeOptions { hidden, ..options.clone() };
        let (run, counts) = {
            let run = Box::pin(run_official(sandbox.handle(), task, patch, &options));
            self.with_counts(sandbox.as_ref(), run).await
        };
        let noise = noise(counts, None, None)?;
        closed(sandbox, run.map(|run| run.map(|run| (run, noise)))).await
    }

    /// Grades unless the run is cancelled, and reads the sandbox's counters before and after. Pass
    /// a boxed future: a grading future is so large that moving it would overflow a thread's
    /// stack.
    pub(crate) async fn with_counts<T>(
        &self,
        sandbox: &dyn Sandbox,
        grades: impl Future<Output = Result<T, Fault>>,
    ) -> (Result<T, Fault>, SandboxCounts) {
        let delta = CounterDelta::new(sandbox);
        delta.begin().await;
        let graded = tokio::select! {
            graded = grades => graded,
            () = self.cancel.told() => Err(Cancel::fault()),
        };
        (graded, delta.end().await.unwrap_or_default())
    }

    pub(crate) async fn open(&self, task: &Task, purpose: Purpose<'_>) -> Result<Ready, Fault> {
        let preparation = Preparation {
            backend: self.backend,
            environment: self.environment,
            task,
            findings: self.findings,
            limits: self.limits,
            mounts: &[],
            label: self.purpose.clone(),
        };
        with_named(preparation.open(purpose).await?, task).await
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
pub(crate) async fn with_named(mut ready: Ready, task: &Task) -> Result<Ready, Fault> {
    match proctor_setup::check_named(ready.sandbox.handle(), task).await {
        Ok(()) => Ok(ready),
        Err(fault) => {
            // Report the first fault, not a failure to close.
            let _ = ready.sandbox.close().await;
            Err(fault)
        }
    }
}

/// Closes a sandbox and returns `found`, even if closing fails.
pub(crate) async fn closed<T>(
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
) -> Result<(Graded, bool), Fault> {
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
    let prepared = prepared_environment(backend.as_ref(), &environment, &findings);
    let (limits, reserved) = (limits_of(arm, task), reserved_of(arm, task));
    let told = (&options.quarantine, context.wide);
    let key = Verdicts::key(&prepared, &limits, task, patch, told)?;
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
    options.expected = context.frozen.known(&handle(), task).await?.unwrap_or_default();
    if context.cancel.winds_down() {
        return Err(Cancel::fault());
    }
    let mut graded = grade_patch(handle(), task, patch, &options).await?;
    if let Some(expected) = expected(context, &handle(), task, (patch, &graded), &options).await? {
        options.expected = expected;
        graded = grade_patch(handle(), task, patch, &options).await?;
    }
    let grade = async || grade_patch(handle(), task, patch, &options).await;
    if context.flaky == FlakePolicy::Vote && only_failed_by(&graded.verdict, unreliable) {
        let (second, third) = (grade().await?, grade().await?);
        if second.verdict.resolved && third.verdict.resolved {
            graded = second;
        }
    }
    if context.wide {
        Box::pin(add_wide(context, &handle(), task, (patch, &options), &mut graded)).await?;
    }
    if let Some(verdicts) = &context.verdicts {
        verdicts.keep(&key, &graded);
    }
    Ok((graded, true))
}

/// Returns a key for everything in a sandbox that affects a result, except its limits: the base,
/// the preparation and the hidden files.
pub(crate) fn prepared_environment(
    backend: &dyn Backend,
    environment: &Prepared,
    findings: &LayerFindings,
) -> String {
    let parts =
        [backend.name(), &environment.digest, PREPARATION, &backend.agent(), &findings.digest()];
    sha256_hex(parts.join("\n").as_bytes())
}

/// Returns the part of a grading's evidence that the task itself causes.
async fn expected(
    context: &RunContext,
    handle: &GradingSandbox<'_>,
    task: &Task,
    (patch, graded): (&[u8], &Graded),
    options: &GradeOptions,
) -> Result<Option<Expected>, Fault> {
    if only_official(task) || expected_of_gold(graded)?.is_empty() {
        return Ok(None);
    }
    let _share = handle.share().await?;
    context.frozen.expected(handle, task, (patch, graded), options).await
}

/// Whether tests failed and all of them are in `unreliable`.
fn only_failed_by(verdict: &Verdict, unreliable: &BTreeSet<String>) -> bool {
    let failed = || verdict.fail_to_pass.failed.iter().chain(&verdict.pass_to_pass.failed);
    !verdict.resolved && failed().next().is_some() && failed().all(|id| unreliable.contains(id))
}
