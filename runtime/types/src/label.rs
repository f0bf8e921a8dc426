//! What people say of a trial or of a step of it: kept beside the record, and no part of it.

use serde::{Deserialize, Serialize};

use crate::TrialId;

/// The version of a line of `labels.jsonl`.
pub const LABEL_VERSION: u32 = 1;

/// A line of `labels.jsonl`. Of lines with one trial, step and label the last one counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// [`LABEL_VERSION`] of the writer.
    pub v: u32,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// What it is of: `task`, `arm` and `attempt` on the level of the other keys.
    #[serde(flatten)]
    pub trial: TrialId,
    /// The step, counted from 1. Absent: it is of the whole trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// A name: `reward-hack`, `wrong test`.
    pub label: String,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Takes the label away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

impl Label {
    /// Whether it says something of the same thing.
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
