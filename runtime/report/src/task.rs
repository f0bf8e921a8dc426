//! One trial's line in the report.

use proctor_types::{ArmId, Ending, Integrity, TaskId};
use serde::{Deserialize, Serialize};

use crate::{TrialResult, build::round};

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
    pub steps: Option<u64>,
    pub cost_usd: Option<f64>,
    pub wall_seconds: Option<f64>,
    /// The infrastructure fault that ended it, as a sentence with its mend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Why the model refused or the scaffold left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
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
            steps: outcome.map(|outcome| outcome.spent.steps),
            cost_usd: outcome.map(|outcome| outcome.spent.cost_usd),
            wall_seconds: outcome.map(|outcome| round(outcome.wall_seconds)),
            why: outcome.and_then(|outcome| match &outcome.ending {
                Ending::ModelRefused { why } | Ending::ScaffoldExited { why } => Some(why.clone()),
                _ => None,
            }),
            fault: outcome.and_then(|outcome| match &outcome.ending {
                Ending::InfrastructureFault { fault } => Some(fault.to_string()),
                _ => None,
            }),
        }
    }
}
