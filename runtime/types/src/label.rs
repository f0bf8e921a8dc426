//! Labels that people give to trials or steps, stored next to the record but not part of it.

use serde::{Deserialize, Serialize};

use crate::TrialId;

/// The version of the format of `labels.jsonl`.
pub const LABEL_VERSION: u32 = 1;

/// A line of `labels.jsonl`. If several lines have the same trial, step and label, the last one
/// applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// [`LABEL_VERSION`] of the writer.
    pub v: u32,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// The labeled trial. Its `task`, `arm` and `attempt` are on the same level as the other keys.
    #[serde(flatten)]
    pub trial: TrialId,
    /// The step, counted from 1. Absent if the label applies to the whole trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The label, such as `reward-hack` or `wrong test`.
    pub label: String,
    /// A free-text comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether this line removes the label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl Label {
    /// Whether this line replaces `other`: both have the same trial, step and label.
    pub fn replaces(&self, other: &Self) -> bool {
        (&self.trial, self.step, &self.label) == (&other.trial, other.step, &other.label)
    }

    /// Formats the label for display: `step 3: reward-hack (reads the tests)`.
    pub fn describe(&self) -> String {
        let step = self.step.map_or_else(String::new, |step| format!("step {step}: "));
        let comment = self.comment.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
        format!("{step}{}{comment}", self.label)
    }
}
