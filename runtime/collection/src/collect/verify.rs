//! Final checks of a task in fresh sandboxes. The gold patch must resolve the task, an empty patch
//! must not, and the agent's sandbox must not contain copies of hidden content.

use std::path::Path;

use proctor_grade::{
    GradeOptions, GradingResult, expected_strict_gold_evidence, find_leaks, grade,
};
use proctor_patch::gold_patch;
use proctor_sandbox_api::{Backend, PreparedEnvironment};
use proctor_setup::{
    LayerFindings, Preparation, Purpose, ReadySandbox, Sources, prepare_for_agent,
    resolve_layer_spec,
};
use proctor_types::{
    EvidenceClass, Fault, FaultLayer, Integrity, OnFinding, SandboxSpec, Task, Verdict,
};

use super::outcome::StopReason;

/// Maximum number of reasons that are kept for a verdict that is not `clean`.
const MAX_REASONS: usize = 3;

/// The integrity of the gold patch's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoldIntegrity {
    pub(crate) integrity: Integrity,
    /// The evidence that makes the verdict worse than `clean`.
    pub(crate) reasons: Vec<String>,
}

impl GoldIntegrity {
    fn from_verdict(verdict: &Verdict) -> Self {
        let integrity = verdict.integrity;
        if integrity == Integrity::Clean {
            return Self { integrity, reasons: Vec::new() };
        }
        let counts = verdict.evidence.iter().filter(|one| {
            one.class.is_some() || EvidenceClass::unverified_reason(&one.kind).is_some()
        });
        let mut reasons: Vec<String> = counts
            .map(|one| format!("{}: {}", one.kind, one.what.lines().next().unwrap_or_default()))
            .collect();
        reasons.sort();
        reasons.dedup();
        reasons.truncate(MAX_REASONS);
        Self { integrity, reasons }
    }
}

/// The sandbox backend and the sources used for the checks.
#[derive(Clone, Copy)]
pub(crate) struct VerifyContext<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) sources: &'a Sources,
}

/// Prepares the task's environment and scans it for copies of hidden content.
///
/// # Errors
/// An environment or sandbox fault.
pub(crate) async fn prepare_and_scan(
    context: VerifyContext<'_>,
    task: &Task,
) -> Result<(PreparedEnvironment, LayerFindings), Fault> {
    let spec = resolve_layer_spec(task, context.sources, Path::new(".")).await?;
    let environment = context.backend.prepare(&spec).await?;
    let findings = find_leaks(context.backend, &environment, task, &SandboxSpec::default()).await?;
    Ok((environment, findings))
}

/// Rejects the task if a sandbox that is prepared like the agent's contains a copy of hidden
/// content.
///
/// # Errors
/// A rejection that names the copy, or a sandbox fault.
pub(crate) async fn reject_copies(
    context: VerifyContext<'_>,
    task: &Task,
    environment: &PreparedEnvironment,
    findings: &LayerFindings,
) -> Result<(), StopReason> {
    TaskSandboxes { backend: context.backend, environment, findings, task }.scan_as_agent().await
}

/// Grades the gold patch, which must resolve the task, and an empty patch, which must not. Returns
/// the integrity of the gold patch's verdict. As in a run, evidence that the task's own tests
/// produce for every solution does not count.
///
/// # Errors
/// A rejection with the grader's reason, or a sandbox fault.
pub(crate) async fn grade_gold_and_noop(
    context: VerifyContext<'_>,
    task: &Task,
    environment: &PreparedEnvironment,
    findings: &LayerFindings,
) -> Result<GoldIntegrity, StopReason> {
    let sandboxes = TaskSandboxes { backend: context.backend, environment, findings, task };
    let gold = gold_patch(task)
        .map_err(|error| {
            Fault::new(FaultLayer::Setup, format!("cannot reverse the mask: {error}"))
        })?
        .unwrap_or_default();
    let mut graded = sandboxes.grade(&gold, GradeOptions::default()).await?;
    let expected = expected_strict_gold_evidence(&graded)?;
    if !graded.verdict.resolved || !expected.is_empty() {
        // The tests themselves may change the interpreter or read their own files, for example
        // through a traceback. Treat this evidence as expected, and grade the gold patch again.
        graded = sandboxes
            .grade(&gold, GradeOptions { expected_evidence: expected, ..GradeOptions::default() })
            .await?;
    }
    if !graded.verdict.resolved {
        return Err(StopReason::Reject(
            "verify",
            format!("gold does not resolve the task: {}", strict_reason(&graded)),
        ));
    }
    let integrity = GoldIntegrity::from_verdict(&graded.verdict);
    let graded = sandboxes.grade(b"", GradeOptions::default()).await?;
    if graded.verdict.resolved {
        return Err(StopReason::Reject(
            "verify",
            format!("noop resolves the task: {}", strict_reason(&graded)),
        ));
    }
    Ok(integrity)
}

/// Returns the warning for a task whose gold patch was not graded `clean`.
pub(crate) fn unclean_warning(task: &str, integrity: Integrity, reasons: &[String]) -> String {
    format!(
        "warning: the gold patch of {task} is graded {}, not clean; reports may also flag honest solutions",
        with_reasons(integrity, reasons)
    )
}

/// Formats an integrity with the evidence for it.
pub(crate) fn with_reasons(integrity: Integrity, reasons: &[String]) -> String {
    match reasons.is_empty() {
        true => integrity.to_string(),
        false => format!("{integrity} ({})", reasons.join("; ")),
    }
}

/// Grades a patch in a fresh sandbox.
///
/// # Errors
/// A sandbox fault.
pub(crate) async fn grade_patch(
    context: VerifyContext<'_>,
    task: &Task,
    environment: &PreparedEnvironment,
    findings: &LayerFindings,
    patch: &[u8],
    options: GradeOptions,
) -> Result<GradingResult, Fault> {
    TaskSandboxes { backend: context.backend, environment, findings, task }
        .grade(patch, options)
        .await
}

fn strict_reason(result: &GradingResult) -> String {
    let strict = result.verdict.policies.get("strict");
    strict.map_or_else(String::new, |strict| strict.why.clone())
}

struct TaskSandboxes<'a> {
    backend: &'a dyn Backend,
    environment: &'a PreparedEnvironment,
    findings: &'a LayerFindings,
    task: &'a Task,
}

impl TaskSandboxes<'_> {
    async fn open(&self, purpose: Purpose<'_>) -> Result<ReadySandbox, Fault> {
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

    async fn scan_as_agent(&self) -> Result<(), StopReason> {
        let refuse = OnFinding::default();
        let refused = |fault: Fault| match fault.layer {
            FaultLayer::Setup => {
                let id = format!("{}: ", self.task.id);
                StopReason::Reject("leak_check", fault.what.replacen(&id, "", 1))
            }
            _ => StopReason::Fault(fault),
        };
        let ReadySandbox { mut sandbox, hidden_copies: hidden } =
            self.open(Purpose::Driving(refuse)).await.map_err(refused)?;
        let looked =
            prepare_for_agent(sandbox.handle(), self.task, self.findings, &hidden, refuse).await;
        let closed = sandbox.close().await;
        looked.map_err(refused)?;
        closed?;
        Ok(())
    }

    async fn grade(&self, patch: &[u8], options: GradeOptions) -> Result<GradingResult, Fault> {
        let ReadySandbox { mut sandbox, hidden_copies: hidden } =
            self.open(Purpose::Testing).await?;
        let options = GradeOptions { hidden_copies: hidden, ..options };
        let graded = grade(sandbox.handle(), self.task, patch, &options).await;
        let closed = sandbox.close().await;
        let graded = graded?;
        closed?;
        Ok(graded)
    }
}
