//! `single-shot.json`, the evidence stored beside a trial's trajectory.

use proctor_answers::{EditReport, natural::Problem};
use serde::Serialize;

use super::settings::Settings;

/// The name of the evidence file.
pub(super) const FILE: &str = "single-shot.json";

/// The settings, what went into the prompt, and what became of the response.
#[derive(Debug, Serialize)]
pub(super) struct Evidence<'a> {
    pub(super) schema_version: u32,
    pub(super) settings: &'a Settings,
    /// The token counter: `o200k_base`, `cl100k_base`, or the digest of the model's own tokenizer.
    pub(super) tokenizer: String,
    pub(super) prompt_tokens: u64,
    /// Whether the prompt exceeds the model's context window, in which case no request was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) beyond_window: bool,
    pub(super) context: ContextRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<AnswerRecord>,
}

/// The files of the prompt.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct ContextRecord {
    pub(super) readmes: Vec<String>,
    /// Files shown regardless of retrieval: files with new components, and files that the patch
    /// creates.
    pub(super) always: Vec<String>,
    /// Tokens of the prompt before retrieval.
    pub(super) base_tokens: u64,
    /// Retrieved files, best first.
    pub(super) retrieved: Vec<Retrieved>,
    /// All code files of the prompt, sorted.
    pub(super) files: Vec<String>,
    /// Quality of the selection of Python files. Absent if the gold patch changes no Python file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<Quality>,
}

/// A retrieved file.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Retrieved {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f64>,
    pub(super) tokens: u64,
    /// Whether the file is shown. False if it did not fit.
    pub(super) shown: bool,
}

/// Precision and recall of the shown files, as in the paper's Table 3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Quality {
    pub(super) precision: f64,
    pub(super) recall: f64,
    /// Whether every file of the gold patch is shown.
    pub(super) recall_all: bool,
}

/// The response and its result.
#[derive(Debug, Default, Serialize)]
pub(super) struct AnswerRecord {
    pub(super) finish_reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) edits: Vec<EditReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<Problem>,
    /// The commands tried for a patch response, in order, with their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) applied_by: Vec<CommandAttempt>,
    /// Whether any part of the response was applied.
    pub(super) applied: bool,
    /// Whether the whole response was applied.
    pub(super) whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probe: Option<ProbeRecord>,
}

/// One command of the benchmark's apply chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CommandAttempt {
    pub(super) command: String,
    /// The error; empty if the command applied the patch.
    pub(super) why: String,
}

/// What a model knew about the gold patch without seeing it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ProbeRecord {
    /// Number of definitions named in the response.
    pub(super) named: usize,
    /// Number of definitions in the gold patch.
    pub(super) gold: usize,
    /// Number of files with gold definitions that the response names.
    pub(super) files: usize,
    /// Number of correct names in the correct file.
    pub(super) names: usize,
    /// Number of exact signatures in the correct file.
    pub(super) signatures: usize,
}
