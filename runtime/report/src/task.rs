//! One trial's line in the report.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{
    ArmId, BudgetKind, Ending, EnvironmentRecord, EvidenceClass, ExitCause, Integrity,
    Interruptions, Noise, QualityMark, Reason, SandboxLimit, Spent, TaskId, TestGroup, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::{
    EarlierReport, Paid, SingleShot, TrialResult,
    build::round,
    limits::limit_of,
    noise::{noise_of, touched_in},
    paid::micro,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub task: TaskId,
    pub arm: ArmId,
    pub attempt: u32,
    /// The outcome's name; null while the trial has not ended.
    pub outcome: Option<String>,
    /// Null without a verdict.
    pub resolved: Option<bool>,
    pub passed_rate: Option<f64>,
    pub integrity: Option<Integrity>,
    /// The classes of evidence against a suspect or worse verdict.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub evidence_classes: BTreeSet<EvidenceClass>,
    /// Why its verdict is unverified, in the words of `configs/evidence.toml`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unverified: BTreeSet<String>,
    /// The quality file's marks of its task, if one was given.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub marks: BTreeSet<QualityMark>,
    /// Labels that people gave the trial and its steps (`proctor label`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// There is a verdict that can be trusted. If false, the trial has no score, which is not the
    /// same as zero.
    #[serde(default)]
    pub score_valid: bool,
    /// Why the task is not resolved, from a closed set (`docs/report.md`); null if it is resolved,
    /// and if nothing can be said yet.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// Its failed tests by exception class (`docs/report.md`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exceptions: BTreeMap<String, u64>,
    /// The kind of the trial's own limit that ended it, or null.
    #[serde(default)]
    pub limit: Option<BudgetKind>,
    /// Limits of its sandbox that it touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<SandboxLimit>,
    /// Limits that a sandbox of its grading touched.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub grading_touched: BTreeSet<SandboxLimit>,
    /// As in `outcome.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Box<Noise>>,
    /// The environment it was graded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentRecord>,
    /// Each policy's reasons, if the policies disagree on `resolved`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies_differ: BTreeMap<String, String>,
    pub steps: Option<u64>,
    /// US dollars for the attempt that counts, without responses after the limit. Null if some
    /// response has no price.
    pub cost_usd: Option<f64>,
    /// US dollars for all attempts and all responses. Null if nothing was started, and if some
    /// response has no price.
    #[serde(default)]
    pub paid_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "EarlierReport::is_none")]
    pub earlier_tries: EarlierReport,
    pub wall_seconds: Option<f64>,
    /// Spent waiting for the endpoint; not working time.
    #[serde(default)]
    pub waited_seconds: Option<f64>,
    /// Some response was larger than the amount reserved for its request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outgrown: bool,
    /// The infrastructure fault that ended it, as a sentence with its hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Files of the trial that differ from what was recorded, each with what can be done about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// For a single-response trial: what was shown, and what became of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_shot: Option<SingleShot>,
    /// Of `scaffold_exited`: `crashed`, `idle`, `approval`, `empty_turn`, `loop` or `finished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ExitCause>,
    /// Why the model refused or the scaffold left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// As in `outcome.json`: whether the trial was resumed or restarted.
    #[serde(default, skip_serializing_if = "Interruptions::is_none")]
    pub interruptions: Interruptions,
    /// What the attempt that counts has used: tokens by class, side requests, responses after the
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// Tool calls in the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Tool calls whose arguments can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed_calls: Option<u64>,
    /// Time spent in tools, over all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_seconds: Option<f64>,
    /// Absent if no patch was collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch_bytes: Option<u64>,
    /// Absent without a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestCounts>,
    /// The task's repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The task's level (FeatureBench).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
}

/// Counts of a verdict's expected tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    pub fail_to_pass: u64,
    pub fail_to_pass_passed: u64,
    pub pass_to_pass: u64,
    pub pass_to_pass_passed: u64,
}

impl TestCounts {
    fn of(verdict: &Verdict) -> Self {
        let all = |group: &TestGroup| (group.passed.len() + group.failed.len()) as u64;
        Self {
            fail_to_pass: all(&verdict.fail_to_pass),
            fail_to_pass_passed: verdict.fail_to_pass.passed.len() as u64,
            pass_to_pass: all(&verdict.pass_to_pass),
            pass_to_pass_passed: verdict.pass_to_pass.passed.len() as u64,
        }
    }
}

impl TaskReport {
    pub(crate) fn of(trial: &TrialResult) -> Self {
        let (outcome, verdict) = (trial.outcome.as_ref(), trial.verdict.as_ref());
        Self {
            task: trial.task.clone(),
            arm: trial.arm.clone(),
            attempt: trial.attempt,
            outcome: outcome.map(|outcome| outcome.ending.name()),
            resolved: verdict.map(|verdict| verdict.resolved),
            passed_rate: verdict.map(|verdict| round(verdict.passed_rate)),
            integrity: verdict.map(|verdict| verdict.integrity),
            marks: BTreeSet::new(),
            evidence_classes: verdict.map(Verdict::classes).unwrap_or_default(),
            unverified: verdict.into_iter().flat_map(Verdict::unverified_reasons).map(str::to_owned).collect(),
            labels: BTreeSet::new(),
            score_valid: verdict.is_some(),
            reason: Reason::of(outcome, verdict, trial.patch_bytes, trial.unasked),
            exceptions: verdict.map(|verdict| verdict.exceptions.clone()).unwrap_or_default(),
            limit: limit_of(trial),
            touched: noise_of(trial).map(|noise| noise.touched.clone()).unwrap_or_default(),
            grading_touched: verdict.into_iter().flat_map(touched_in).collect(),
            noise: outcome.and_then(|outcome| outcome.noise.clone()),
            // The same twelve variables in each trial were a third of a report; verdicts have them.
            environment: verdict.and_then(|verdict| verdict.environment.clone()).map(
                |environment| EnvironmentRecord { cpu_variables: BTreeMap::new(), ..environment },
            ),
            policies_differ: verdict.map(differing).unwrap_or_default(),
            steps: outcome.map(|outcome| outcome.spent.steps),
            cost_usd: outcome
                .filter(|outcome| !outcome.spent.unpriced)
                .map(|outcome| micro(outcome.spent.cost_usd)),
            paid_usd: (outcome.is_some() || trial.earlier.tries > 0)
                .then(|| Paid::of(&[trial]))
                .filter(|paid| paid.cost_known)
                .map(|paid| paid.cost_usd),
            earlier_tries: EarlierReport::of(&[trial]),
            wall_seconds: outcome.map(|outcome| round(outcome.wall_seconds)),
            waited_seconds: outcome.map(|outcome| round(outcome.waited_seconds)),
            outgrown: outcome.is_some_and(|outcome| outcome.spent.outgrown),
            interruptions: outcome.map(|one| one.interruptions.clone()).unwrap_or_default(),
            spent: outcome.map(|outcome| outcome.spent),
            tool_calls: outcome.and_then(|outcome| outcome.tool_calls),
            malformed_calls: outcome.map(|outcome| outcome.malformed_calls),
            tool_seconds: outcome.map(|outcome| round(outcome.tool_seconds)),
            patch_bytes: trial.patch_bytes,
            tests: verdict.map(TestCounts::of),
            repo: trial.facts.repo.clone(),
            level: trial.facts.level,
            damage: trial.damage.clone(),
            single_shot: trial.single.clone(),
            cause: outcome.and_then(|outcome| match &outcome.ending {
                Ending::ScaffoldExited { cause, .. } => Some(*cause),
                _ => None,
            }),
            why: outcome.and_then(|outcome| match &outcome.ending {
                Ending::ModelRefused { why } | Ending::ScaffoldExited { why, .. } => {
                    Some(why.clone())
                }
                _ => None,
            }),
            fault: outcome.and_then(|outcome| match &outcome.ending {
                Ending::InfrastructureFault { fault } => Some(fault.to_string()),
                _ => None,
            }),
        }
    }
}

/// The policies with their reasons, unless they agree.
fn differing(verdict: &Verdict) -> BTreeMap<String, String> {
    let all = || verdict.policies.iter();
    if all().all(|(_, policy)| policy.resolved == verdict.resolved) {
        return BTreeMap::new();
    }
    let said = |resolved| if resolved { "resolved" } else { "not resolved" };
    all()
        .map(|(name, policy)| (name.clone(), format!("{}, {}", said(policy.resolved), policy.why)))
        .collect()
}
