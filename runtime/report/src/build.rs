//! From trials to a report.

use proctor_types::{ArmId, EarlierTries, Outcome, PATCH_REJECTED, TaskId, Verdict};
use serde::{Deserialize, Serialize};

use crate::{ArmReport, RankAgreement, SingleShot, TaskFacts, TaskReport, agreement::agreements};

pub const REPORT_SCHEMA: u32 = 1;

/// One trial of the plan, with what is recorded of it so far.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    pub arm: ArmId,
    pub arm_name: String,
    /// Its arm is a control: compared with others, and no part of what is asked.
    pub control: bool,
    pub task: TaskId,
    /// Counted from 1.
    pub attempt: u32,
    /// Absent: it has not ended.
    pub outcome: Option<Outcome>,
    /// What the tries that do not count have cost.
    pub earlier: EarlierTries,
    /// Absent: it is not graded, or could not be.
    pub verdict: Option<Verdict>,
    /// Nobody has asked for a verdict: an import is graded when somebody wants it.
    pub unasked: bool,
    /// Absent: no patch was collected.
    pub patch_bytes: Option<u64>,
    /// Files that are not what was recorded, as sentences that name the place and what can be done.
    pub damage: Vec<String>,
    /// Of a trial of one answer.
    pub single: Option<SingleShot>,
    pub facts: TaskFacts,
}

impl TrialResult {
    /// There was a patch, and grading could apply it. An empty one counts as not applied, as the
    /// benchmarks count it.
    pub fn applied(&self) -> bool {
        let rejected = |verdict: &Verdict| {
            verdict.evidence.iter().any(|evidence| evidence.kind == PATCH_REJECTED)
        };
        self.patch_bytes.is_some_and(|bytes| bytes > 0)
            && self.verdict.as_ref().is_some_and(|verdict| !rejected(verdict))
    }
}

/// What `report --format json` prints. Fields are only ever added within a schema version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema_version: u32,
    /// In the order of the plan.
    pub arms: Vec<ArmReport>,
    /// One a trial, in the order of the plan.
    pub tasks: Vec<TaskReport>,
    /// Whether sets of tasks rank the arms alike; empty where there are no two sets, and while a verdict is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_agreement: Vec<RankAgreement>,
    /// What a reader of the numbers must know besides them: sentences, below the tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Report {
    /// Every trial of the plan has a verdict.
    pub fn complete(&self) -> bool {
        self.arms.iter().all(|arm| arm.complete)
    }
}

/// Reports on all trials of a plan: those that have not ended belong in it too. Arms are told
/// apart by id; of one id the first name is shown.
pub fn build(inputs: Vec<TrialResult>) -> Report {
    let mut ids: Vec<&ArmId> = Vec::new();
    for trial in &inputs {
        if !ids.contains(&&trial.arm) {
            ids.push(&trial.arm);
        }
    }
    let arms = ids
        .into_iter()
        .map(|id| {
            let trials: Vec<_> = inputs.iter().filter(|trial| trial.arm == *id).collect();
            ArmReport::of(id, &trials)
        })
        .collect();
    let tasks = inputs.iter().map(TaskReport::of).collect();
    let rank_agreement = agreements(&inputs);
    Report { schema_version: REPORT_SCHEMA, arms, tasks, rank_agreement, remarks: Vec::new() }
}

/// Four decimals: more would only be noise in a diff of two reports.
pub(crate) fn round(value: f64) -> f64 {
    // Plus zero: the sum of no floats is -0.0, and no report should say so.
    (value * 1e4).round() / 1e4 + 0.0
}
