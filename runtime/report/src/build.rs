//! Builds a report from trials.

use proctor_types::{ArmId, EarlierTries, Outcome, PATCH_REJECTED, TaskId, Verdict};
use serde::{Deserialize, Serialize};

use crate::{ArmReport, RankAgreement, SingleShot, TaskFacts, TaskReport, agreement::agreements};

pub const REPORT_SCHEMA: u32 = 1;

/// One planned trial, with what has been recorded so far.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    pub arm: ArmId,
    pub arm_name: String,
    /// Whether the arm is a control. Controls are compared with other arms, but are not under study themselves.
    pub control: bool,
    pub task: TaskId,
    /// Counted from 1.
    pub attempt: u32,
    /// `None` if the trial has not ended.
    pub outcome: Option<Outcome>,
    /// The cost of the attempts that do not count.
    pub earlier: EarlierTries,
    /// `None` if the trial was not graded or could not be graded.
    pub verdict: Option<Verdict>,
    /// No verdict was requested: imports are only graded on request.
    pub unasked: bool,
    /// `None` if no patch was collected.
    pub patch_bytes: Option<u64>,
    /// Files that differ from the record. Each sentence names the file and a remedy.
    pub damage: Vec<String>,
    /// Details of a single-response trial.
    pub single: Option<SingleShot>,
    pub facts: TaskFacts,
}

impl TrialResult {
    /// Whether the patch was not empty and could be applied. An empty patch counts as not applied,
    /// as in the benchmarks.
    pub fn has_applied_patch(&self) -> bool {
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
    /// Arms in plan order.
    pub arms: Vec<ArmReport>,
    /// One entry per trial, in plan order.
    pub tasks: Vec<TaskReport>,
    /// How well sets of tasks agree on the ranking of the arms. Empty without two sets, and while a
    /// verdict is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_agreement: Vec<RankAgreement>,
    /// What readers must know besides the numbers: sentences, shown below the tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Report {
    /// Whether every planned trial has a verdict.
    pub fn is_complete(&self) -> bool {
        self.arms.iter().all(|arm| arm.complete)
    }

    /// Returns the arms under study: the arms that are not controls, or all arms if there are only controls.
    pub fn arms_under_study(&self) -> Vec<&ArmReport> {
        let study: Vec<&ArmReport> = self.arms.iter().filter(|arm| !arm.control).collect();
        if study.is_empty() { self.arms.iter().collect() } else { study }
    }

    /// Returns the controls, if other arms are under study.
    pub fn controls(&self) -> Vec<&ArmReport> {
        let study = self.arms_under_study();
        let is_apart = |arm: &&ArmReport| study.iter().all(|other| other.arm != arm.arm);
        self.arms.iter().filter(is_apart).collect()
    }
}

/// Builds the report of all trials of a plan, including those that have not ended. Arms are
/// identified by id. If an id has several names, the first is shown.
pub fn build_report(inputs: Vec<TrialResult>) -> Report {
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
            ArmReport::from_trials(id, &trials)
        })
        .collect();
    let tasks = inputs.iter().map(TaskReport::from_trial).collect();
    let rank_agreement = agreements(&inputs);
    Report { schema_version: REPORT_SCHEMA, arms, tasks, rank_agreement, remarks: Vec::new() }
}

/// Rounds to four decimals. More would only be noise in a diff of two reports.
pub(crate) fn round_to_four_decimals(value: f64) -> f64 {
    // Adding zero turns -0.0, the sum of no floats, into 0.
    (value * 1e4).round() / 1e4 + 0.0
}
