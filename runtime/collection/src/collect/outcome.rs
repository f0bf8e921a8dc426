//! The outcome for a test file: a verified task with its metrics, or a rejection.

use proctor_types::{Fault, Integrity, Task};
use serde::{Deserialize, Serialize};

use super::solvability::{Solvability, SolvabilityCounts};
use crate::RecipeError;

/// A test file that yields no task, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    pub file: String,
    /// `tops`, `pass_to_pass`, `mask`, `verify`, `solvability`, `leak_check` or `fault`. For level
    /// 2, `level_2: ` followed by `tops`, `rewrite`, `oracle`, `gold`, `verify`, `solvability`,
    /// `leak_check`, `same` or `attacks`.
    pub stage: String,
    pub reason: String,
}

/// A verified task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct VerifiedTask {
    pub(super) task: Task,
    /// The task's row in FeatureBench's format.
    pub(super) row: serde_json::Value,
    pub(super) facts: TaskMetrics,
    #[serde(default)]
    pub(super) solvability: Solvability,
}

/// A task's values in the complexity table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskMetrics {
    pub task: String,
    /// The task's test file.
    pub file: String,
    pub policy: String,
    /// Number of words in the statement.
    pub words: usize,
    /// Number of lines in the gold patch.
    pub lines: usize,
    /// Number of files in the gold patch.
    pub files: usize,
    /// Number of functions in the gold patch.
    pub functions: usize,
    pub tops: Vec<String>,
    pub fail_to_pass: usize,
    pub pass_to_pass: usize,
    /// Number of other files whose tests must still pass.
    pub pass_to_pass_files: usize,
    /// The fraction of the test file's tests that pass without the feature.
    pub pass_rate: f64,
    /// The fraction of the test file's tests that pass either without the feature or with functions
    /// that do nothing.
    #[serde(default)]
    pub idle_rate: f64,
    /// The fraction of the gold patch's lines that the statement reveals, not counting signatures
    /// and documentation.
    pub leak_score: f64,
    pub meets_minima: bool,
    /// Whether the task is in the lite set.
    pub lite: bool,
    /// Counts of what the task's tests require.
    #[serde(default)]
    pub solvability: SolvabilityCounts,
    /// What the task's tests require and the statement does not contain, as phrases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solvability_gaps: Vec<String>,
    /// The integrity of the gold patch's verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold_integrity: Option<Integrity>,
    /// The evidence that makes the gold patch's verdict worse than `clean`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gold_reasons: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Task(Box<VerifiedTask>),
    Reject(Reject),
}

/// Why work on a candidate stopped.
pub(crate) enum StopReason {
    Reject(&'static str, String),
    Fault(Fault),
}

impl From<Fault> for StopReason {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RecipeError> for StopReason {
    fn from(error: RecipeError) -> Self {
        match error {
            RecipeError::Fault(fault) => Self::Fault(fault),
            other => Self::Reject("verify", other.to_string()),
        }
    }
}

/// Rounds a fraction for reports.
pub(super) fn round_fraction(fraction: f64) -> f64 {
    (fraction * 1e4).round() / 1e4
}
