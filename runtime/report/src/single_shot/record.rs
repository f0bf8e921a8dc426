//! The facts recorded about one single-response trial.

use serde::{Deserialize, Serialize};

/// The facts about one trial, read from its `single-shot.json`. Fields that reports do not use are
/// ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SingleShot {
    pub prompt_tokens: u64,
    /// Whether the prompt exceeded the model's context window.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beyond_window: bool,
    pub context: ShownFiles,
    pub answer: Option<SingleShotResponse>,
}

/// The files shown in the prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownFiles {
    pub files: Vec<String>,
    pub quality: Option<RetrievalQuality>,
}

/// Precision and recall of the Python files that were shown, relative to the files in the gold
/// patch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RetrievalQuality {
    pub precision: f64,
    pub recall: f64,
    pub recall_all: bool,
}

/// How the response was applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SingleShotResponse {
    pub finish_reason: Option<String>,
    pub edits: Vec<EditStatus>,
    /// Whether at least part of the response was applied. `whole` is true if all of it was applied.
    pub applied: bool,
    pub whole: bool,
    pub probe: Option<ProbeScore>,
}

/// One edit in a natural response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditStatus {
    pub file: String,
    pub status: String,
}

/// Counts of names that the model got right without having seen them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeScore {
    pub gold: u64,
    pub names: u64,
    pub signatures: u64,
}
