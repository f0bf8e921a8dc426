//! The report of one trial.

use std::collections::{BTreeMap, BTreeSet};

use proctor_types::{
    ArmId, BudgetKind, Ending, EnvironmentRecord, EvidenceClass, ExitCause, FailureReason,
    Integrity, Interruptions, Noise, QualityMark, SandboxLimit, Spending, TaskId, TestGroup,
    Verdict,
};
use serde::{Deserialize, Serialize};

use crate::{
    BilledUsage, EarlierTriesReport, SingleShot, TrialResult,
    limits::own_limit,
    noise::{limits_reached_in_grading, trial_noise},
    rounding::{round_to_four_decimals, round_to_micro_dollars},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub task: TaskId,
    pub arm: ArmId,
    pub attempt: u32,
    /// The name of the outcome. Null while the trial has not ended.
    pub outcome: Option<String>,
    /// Null without a verdict.
    pub resolved: Option<bool>,
    pub passed_rate: Option<f64>,
    pub integrity: Option<Integrity>,
    /// The classes of evidence against a suspect or contaminated verdict.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub evidence_classes: BTreeSet<EvidenceClass>,
    /// Why the verdict is unverified, in the words of `configs/tables/evidence.toml`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unverified: BTreeSet<String>,
    /// The task's marks in the quality file. Empty without a quality file.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub marks: BTreeSet<QualityMark>,
    /// Labels that people gave the trial and its steps (`proctor label`).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Whether the trial has a verdict that can be trusted. If false, the trial has no score, which
    /// is different from a score of zero.
    #[serde(default)]
    pub score_valid: bool,
    /// Why the task is not resolved: one of a fixed set of reasons (`docs/reference/report.md`). Null if the
    /// task is resolved or the reason is not yet known.
    #[serde(default)]
    pub reason: Option<FailureReason>,
    /// Number of the trial's failed tests, by exception class (`docs/reference/report.md`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exceptions: BTreeMap<String, u64>,
    /// The trial's own limit that ended it, or null.
    #[serde(default)]
    pub limit: Option<BudgetKind>,
    /// Limits that the trial's sandbox hit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<SandboxLimit>,
    /// Limits that the sandboxes hit during grading.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub grading_touched: BTreeSet<SandboxLimit>,
    /// How limits and waits affected the trial, as in `outcome.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Box<Noise>>,
    /// The environment in which the trial was graded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvironmentRecord>,
    /// Each policy's reason, if the policies disagree about `resolved`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies_differ: BTreeMap<String, String>,
    pub steps: Option<u64>,
    /// Cost in US dollars of the try that counts, without responses received after a limit was
    /// reached. Null if some responses have no price.
    pub cost_usd: Option<f64>,
    /// Cost of all tries and all responses in US dollars. Null if nothing was started, or if some
    /// responses have no price.
    #[serde(default)]
    pub paid_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "EarlierTriesReport::is_empty")]
    pub earlier_tries: EarlierTriesReport,
    pub wall_seconds: Option<f64>,
    /// Time spent waiting for the endpoint. This time does not count as working time.
    #[serde(default)]
    pub waited_seconds: Option<f64>,
    /// Whether some response used more than the amount reserved for its request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outgrown: bool,
    /// The infrastructure fault that ended the trial, as a sentence with its hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The fault because of which grading left the trial without a verdict, as a sentence with its
    /// hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grading_fault: Option<String>,
    /// Files of the trial that differ from the record, each with a hint on how to fix it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// Details of a single-response trial: the files shown, and how the response was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_shot: Option<SingleShot>,
    /// For `scaffold_exited`: `crashed`, `idle`, `approval`, `empty_turn`, `loop` or `finished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ExitCause>,
    /// Why the model refused or the scaffold exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the trial was resumed or started over, as in `outcome.json`.
    #[serde(default, skip_serializing_if = "Interruptions::is_empty")]
    pub interruptions: Interruptions,
    /// Usage of the try that counts: tokens by class, side requests, and responses received after a
    /// limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spending>,
    /// Number of recorded tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Number of tool calls whose arguments could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed_calls: Option<u64>,
    /// Total time spent in tools.
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

/// How many expected tests a verdict lists, and how many of them passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    pub fail_to_pass: u64,
    pub fail_to_pass_passed: u64,
    pub pass_to_pass: u64,
    pub pass_to_pass_passed: u64,
}

impl TestCounts {
    fn from_verdict(verdict: &Verdict) -> Self {
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
    pub(crate) fn from_trial(trial: &TrialResult) -> Self {
        let (outcome, verdict) = (trial.outcome.as_ref(), trial.verdict.as_ref());
        Self {
            task: trial.task.clone(),
            arm: trial.arm.clone(),
            attempt: trial.attempt,
            outcome: outcome.map(|outcome| outcome.ending.name()),
            resolved: verdict.map(|verdict| verdict.resolved),
            passed_rate: verdict.map(|verdict| round_to_four_decimals(verdict.passed_rate)),
            integrity: verdict.map(|verdict| verdict.integrity),
            marks: BTreeSet::new(),
            evidence_classes: verdict.map(Verdict::evidence_classes).unwrap_or_default(),
            unverified: verdict
                .into_iter()
                .flat_map(Verdict::unverified_reasons)
                .map(str::to_owned)
                .collect(),
            labels: BTreeSet::new(),
            score_valid: verdict.is_some(),
            reason: FailureReason::from_results(
                outcome,
                verdict,
                trial.patch_bytes,
                trial.grading_not_requested,
            ),
            exceptions: verdict.map(|verdict| verdict.exceptions.clone()).unwrap_or_default(),
            limit: own_limit(trial),
            touched: trial_noise(trial).map(|noise| noise.touched.clone()).unwrap_or_default(),
            grading_touched: verdict.into_iter().flat_map(limits_reached_in_grading).collect(),
            noise: outcome.and_then(|outcome| outcome.noise.clone()),
            // Leave out the CPU variables, because the verdicts contain them. Repeating the same
            // twelve variables for each trial made up a third of a report.
            environment: verdict.and_then(|verdict| verdict.environment.clone()).map(
                |environment| EnvironmentRecord { cpu_variables: BTreeMap::new(), ..environment },
            ),
            policies_differ: verdict.map(differing_policies).unwrap_or_default(),
            steps: outcome.map(|outcome| outcome.spent.steps),
            cost_usd: outcome
                .filter(|outcome| !outcome.spent.unpriced)
                .map(|outcome| round_to_micro_dollars(outcome.spent.cost_usd)),
            paid_usd: (outcome.is_some() || trial.earlier_tries.tries > 0)
                .then(|| BilledUsage::from_trials(&[trial]))
                .filter(|paid| paid.cost_known)
                .map(|paid| paid.cost_usd),
            earlier_tries: EarlierTriesReport::from_trials(&[trial]),
            wall_seconds: outcome.map(|outcome| round_to_four_decimals(outcome.wall_seconds)),
            waited_seconds: outcome.map(|outcome| round_to_four_decimals(outcome.waited_seconds)),
            outgrown: outcome.is_some_and(|outcome| outcome.spent.outgrown),
            interruptions: outcome.map(|one| one.interruptions.clone()).unwrap_or_default(),
            spent: outcome.map(|outcome| outcome.spent),
            tool_calls: outcome.and_then(|outcome| outcome.tool_calls),
            malformed_calls: outcome.map(|outcome| outcome.malformed_calls),
            tool_seconds: outcome.map(|outcome| round_to_four_decimals(outcome.tool_seconds)),
            patch_bytes: trial.patch_bytes,
            tests: verdict.map(TestCounts::from_verdict),
            repo: trial.facts.repo.clone(),
            level: trial.facts.level,
            damage: trial.damage.clone(),
            single_shot: trial.single_shot.clone(),
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
            grading_fault: trial.grading_failure.as_ref().map(|one| one.fault.to_string()),
        }
    }
}

/// Returns each policy's reason, or nothing if the policies agree.
fn differing_policies(verdict: &Verdict) -> BTreeMap<String, String> {
    let all = || verdict.policies.iter();
    if all().all(|(_, policy)| policy.resolved == verdict.resolved) {
        return BTreeMap::new();
    }
    let said = |resolved| if resolved { "resolved" } else { "not resolved" };
    all()
        .map(|(name, policy)| (name.clone(), format!("{}, {}", said(policy.resolved), policy.why)))
        .collect()
}
