//! The recorded facts of one single-response trial.

use serde::{Deserialize, Serialize};

/// One trial, read from its `single-shot.json`. Fields that a report does not use are ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SingleShot {
    pub prompt_tokens: u64,
    /// Whether the prompt exceeded the model's window.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beyond_window: bool,
    pub context: ShownFiles,
    pub answer: Option<SingleShotResponse>,
}

/// The files in the prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownFiles {
    pub files: Vec<String>,
    pub quality: Option<RetrievalQuality>,
}

/// Precision and recall of the Python files that were shown, compared with those of the gold patch.
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

/// One edit of a natural response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditStatus {
    pub file: String,
    pub status: String,
}

/// Counts of what the model named correctly without having seen it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeScore {
    pub gold: u64,
    pub names: u64,
    pub signatures: u64,
}
