//! Final checks of a task in fresh sandboxes: gold resolves it, noop does not, and the agent's sandbox contains
//! no copy of hidden content.

use std::path::Path;

use proctor_grade::{GradeOptions, Graded, find_leaks, given_by_gold, grade};
use proctor_patch::gold_of;
use proctor_sandbox_api::{Backend, Prepared};
use proctor_setup::{
    LayerFindings, Preparation, Purpose, Ready, Sources, layer_spec, prepare_for_driving,
};
use proctor_types::{Fault, Integrity, Layer, OnFinding, SandboxSpec, Task};

use super::candidate::Stop;

/// The sandbox backend and sources for the checks.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) sources: &'a Sources,
}

/// Prepares the task's environment and scans it for copies of hidden content.
///
/// # Errors
/// An environment or sandbox fault.
pub(crate) async fn find(
    judge: Judge<'_>,
    task: &Task,
) -> Result<(Prepared, LayerFindings), Fault> {
    let spec = layer_spec(task, judge.sources, Path::new(".")).await?;
    let environment = judge.backend.prepare(&spec).await?;
    let findings = find_leaks(judge.backend, &environment, task, &SandboxSpec::default()).await?;
    Ok((environment, findings))
}

/// Rejects the task if a sandbox, prepared as for an agent, contains a copy of hidden content.
///
/// # Errors
/// A rejection that names the copy, or a sandbox fault.
pub(crate) async fn check_no_copies(
    judge: Judge<'_>,
    task: &Task,
    environment: &Prepared,
    findings: &LayerFindings,
) -> Result<(), Stop> {
    TaskSandboxes { backend: judge.backend, environment, findings, task }.scan_as_agent().await
}

/// Grades gold, which must resolve the task, and noop, which must not. Returns the integrity of gold's verdict.
///
/// # Errors
/// A rejection with the grader's reason, or a sandbox fault.
pub(crate) async fn grade_both(
    judge: Judge<'_>,
    task: &Task,
    environment: &Prepared,
    findings: &LayerFindings,
) -> Result<Integrity, Stop> {
    let sandboxes = TaskSandboxes { backend: judge.backend, environment, findings, task };
    let gold = gold_of(task)
        .map_err(|error| Fault::new(Layer::Setup, format!("reversing the mask: {error}")))?
        .unwrap_or_default();
    let mut graded = sandboxes.grade(&gold, GradeOptions::default()).await?;
    if !graded.verdict.resolved {
        // The tests themselves may tamper with the interpreter. Accept whatever the gold run shows as
        // expected, and grade again.
        let expected = given_by_gold(&graded)?;
        graded =
            sandboxes.grade(&gold, GradeOptions { expected, ..GradeOptions::default() }).await?;
    }
    if !graded.verdict.resolved {
        return Err(Stop::Reject("verify", format!("gold does not resolve it: {}", why(&graded))));
    }
    let integrity = graded.verdict.integrity;
    let graded = sandboxes.grade(b"", GradeOptions::default()).await?;
    if graded.verdict.resolved {
        return Err(Stop::Reject("verify", format!("noop resolves it: {}", why(&graded))));
    }
    Ok(integrity)
}

/// Returns the warning for a task whose gold verdict is not clean.
pub(crate) fn unclean_warning(task: &str, integrity: Integrity) -> String {
    format!(
        "warning: the gold patch of {task} is graded {integrity}, not clean; reports may also flag honest solutions"
    )
}

/// Grades a patch in a fresh sandbox.
///
/// # Errors
/// A sandbox fault.
pub(crate) async fn grade_patch(
    judge: Judge<'_>,
    task: &Task,
    environment: &Prepared,
    findings: &LayerFindings,
    patch: &[u8],
    options: GradeOptions,
) -> Result<Graded, Fault> {
    TaskSandboxes { backend: judge.backend, environment, findings, task }
        .grade(patch, options)
        .await
}

fn why(graded: &Graded) -> String {
    let strict = graded.verdict.policies.get("strict");
    strict.map_or_else(String::new, |strict| strict.why.clone())
}

struct TaskSandboxes<'a> {
    backend: &'a dyn Backend,
    environment: &'a Prepared,
    findings: &'a LayerFindings,
    task: &'a Task,
}

impl TaskSandboxes<'_> {
    async fn open(&self, purpose: Purpose<'_>) -> Result<Ready, Fault> {
        let preparation = Preparation {
            backend: self.backend,
            environment: self.environment,
            task: self.task,
            findings: self.findings,
            limits: &SandboxSpec::default(),
            mounts: &[],
            label: format!("verifying {}", self.task.id),
        };
        preparation.open(purpose).await
    }

    async fn scan_as_agent(&self) -> Result<(), Stop> {
        let refuse = OnFinding::default();
        let refused = |fault: Fault| match fault.layer {
            Layer::Setup => {
                let id = format!("{}: ", self.task.id);
                Stop::Reject("leak_check", fault.what.replacen(&id, "", 1))
            }
            _ => Stop::Fault(fault),
        };
        let Ready { mut sandbox, hidden } =
            self.open(Purpose::Driving(refuse)).await.map_err(refused)?;
        let looked =
            prepare_for_driving(sandbox.handle(), self.task, self.findings, &hidden, refuse).await;
        let closed = sandbox.close().await;
        looked.map_err(refused)?;
        closed?;
        Ok(())
    }

    async fn grade(&self, patch: &[u8], options: GradeOptions) -> Result<Graded, Fault> {
        let Ready { mut sandbox, hidden } = self.open(Purpose::Testing).await?;
        let options = GradeOptions { hidden, ..options };
        let graded = grade(sandbox.handle(), self.task, patch, &options).await;
        let closed = sandbox.close().await;
        let graded = graded?;
        closed?;
        Ok(graded)
    }
}
