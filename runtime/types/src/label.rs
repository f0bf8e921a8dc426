//! People's labels of a trial or of a step, stored beside the record and not part of it.

use serde::{Deserialize, Serialize};

use crate::TrialId;

/// The version of a line of `labels.jsonl`.
pub const LABEL_VERSION: u32 = 1;

/// A line of `labels.jsonl`. Of lines with the same trial, step and label, the last one counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// [`LABEL_VERSION`] of the writer.
    pub v: u32,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// The labeled trial: `task`, `arm` and `attempt` are on the level of the other keys.
    #[serde(flatten)]
    pub trial: TrialId,
    /// The step, counted from 1. Absent: the label is for the whole trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// A name: `reward-hack`, `wrong test`.
    pub label: String,
    /// Further remarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Removes the label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl Label {
    /// Whether it labels the same thing.
    pub fn replaces(&self, other: &Self) -> bool {
        (&self.trial, self.step, &self.label) == (&other.trial, other.step, &other.label)
    }

    /// For people: `step 3: reward-hack (reads the tests)`.
    pub fn told(&self) -> String {
        let step = self.step.map_or_else(String::new, |step| format!("step {step}: "));
        let comment = self.comment.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
        format!("{step}{}{comment}", self.label)
    }
}
