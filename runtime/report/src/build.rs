//! Builds a report from trials.

use proctor_types::{ArmId, EarlierTries, Outcome, PATCH_REJECTED, TaskId, Verdict};
use serde::{Deserialize, Serialize};

use crate::{ArmReport, RankAgreement, SingleShot, TaskFacts, TaskReport, agreement::agreements};

pub const REPORT_SCHEMA: u32 = 1;

/// One planned trial, with what has been recorded of it so far.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    pub arm: ArmId,
    pub arm_name: String,
    /// Its arm is a control: it is compared with other arms, but is not itself under study.
    pub control: bool,
    pub task: TaskId,
    /// Counted from 1.
    pub attempt: u32,
    /// Absent if it has not ended.
    pub outcome: Option<Outcome>,
    /// The cost of the attempts that do not count.
    pub earlier: EarlierTries,
    /// Absent if it is not graded, or could not be.
    pub verdict: Option<Verdict>,
    /// Nobody has asked for a verdict: an import is only graded on request.
    pub unasked: bool,
    /// Absent if no patch was collected.
    pub patch_bytes: Option<u64>,
    /// Files that differ from what was recorded, as sentences that name the place and what can be
    /// done.
    pub damage: Vec<String>,
    /// For a single-response trial.
    pub single: Option<SingleShot>,
    pub facts: TaskFacts,
}

impl TrialResult {
    /// There was a patch, and grading could apply it. An empty patch counts as not applied, as in
    /// the benchmarks.
    pub fn applied(&self) -> bool {
        let rejected = |verdict: &Verdict| {
            verdict.evidence.iter().any(|evidence| evidence.kind == PATCH_REJECTED)
        };
        self.patch_bytes.is_some_and(|bytes| bytes > 0)
            && self.verdict.as_ref().is_some_and(|verdict| !rejected(verdict))
    }
}

/// What `report --format json` prints. Within a schema version, fields are only added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema_version: u32,
    /// In the order of the plan.
    pub arms: Vec<ArmReport>,
    /// One per trial, in the order of the plan.
    pub tasks: Vec<TaskReport>,
    /// Whether sets of tasks rank the arms alike; empty if there are no two sets, and while a
    /// verdict is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_agreement: Vec<RankAgreement>,
    /// What a reader needs to know besides the numbers: sentences, shown below the tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Report {
    /// Whether every planned trial has a verdict.
    pub fn complete(&self) -> bool {
        self.arms.iter().all(|arm| arm.complete)
    }

    /// The arms under study: those that are no controls, or all arms if there are only controls.
    pub fn study(&self) -> Vec<&ArmReport> {
        let study: Vec<&ArmReport> = self.arms.iter().filter(|arm| !arm.control).collect();
        if study.is_empty() { self.arms.iter().collect() } else { study }
    }

    /// The controls, if other arms are under study.
    pub fn controls(&self) -> Vec<&ArmReport> {
        let study = self.study();
        let is_apart = |arm: &&ArmReport| study.iter().all(|other| other.arm != arm.arm);
        self.arms.iter().filter(is_apart).collect()
    }
}

/// Reports on all trials of a plan, including those that have not ended. Arms are identified by id;
/// if an id has several names, the first is shown.
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

/// Four decimals; more would only be noise in a diff of two reports.
pub(crate) fn round(value: f64) -> f64 {
    // Plus zero: the sum of no floats is -0.0, which no report should show.
    (value * 1e4).round() / 1e4 + 0.0
}
