//! The content of `single-shot.json`, the evidence that is stored next to a trial's trajectory.

use proctor_answers::{EditReport, natural::AnswerProblem};
use serde::Serialize;

use super::settings::Settings;

/// The name of the evidence file.
pub(super) const FILE_NAME: &str = "single-shot.json";

/// The settings, the input of the prompt, and the result of the response.
#[derive(Debug, Serialize)]
pub(super) struct Evidence<'a> {
    pub(super) schema_version: u32,
    pub(super) settings: &'a Settings,
    /// What counted the tokens: `o200k_base`, `cl100k_base`, or the digest of the model's own
    /// tokenizer.
    pub(super) tokenizer: String,
    pub(super) prompt_tokens: u64,
    /// Whether the prompt exceeded the model's context window. If so, no request was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) beyond_window: bool,
    pub(super) context: ContextRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<AnswerRecord>,
}

/// The files in the prompt.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct ContextRecord {
    pub(super) readmes: Vec<String>,
    /// Files that are shown without retrieval: files with new components, and files that the gold
    /// patch creates.
    pub(super) always: Vec<String>,
    /// Number of tokens in the prompt before retrieved files were added.
    pub(super) base_tokens: u64,
    /// The files that retrieval found, best first.
    pub(super) retrieved: Vec<RetrievedFile>,
    /// All code files in the prompt, sorted.
    pub(super) files: Vec<String>,
    /// How good the selection of Python files is. Absent if the gold patch changes no Python file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<Quality>,
}

/// A file that retrieval found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RetrievedFile {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f64>,
    pub(super) tokens: u64,
    /// Whether the file is in the prompt. `false` if it did not fit.
    pub(super) shown: bool,
}

/// Precision and recall of the files in the prompt, as in Table 3 of the FEA-Bench paper.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Quality {
    pub(super) precision: f64,
    pub(super) recall: f64,
    /// Whether the prompt contains every file of the gold patch.
    pub(super) recall_all: bool,
}

/// The response, and which parts of it were applied.
#[derive(Debug, Default, Serialize)]
pub(super) struct AnswerRecord {
    pub(super) finish_reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) edits: Vec<EditReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<AnswerProblem>,
    /// The commands that were tried to apply a patch, in order, with their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) applied_by: Vec<CommandAttempt>,
    /// Whether any part of the response was applied.
    pub(super) applied: bool,
    /// Whether the whole response was applied.
    pub(super) whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probe: Option<ProbeRecord>,
}

/// One command that the benchmark's harness uses to apply a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CommandAttempt {
    pub(super) command: String,
    /// The error; empty if the command applied the patch.
    pub(super) why: String,
}

/// What a model knew about the gold patch without having seen it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ProbeRecord {
    /// Number of definitions that the response names.
    pub(super) named: usize,
    /// Number of definitions in the gold patch.
    pub(super) gold: usize,
    /// Number of files with definitions in the gold patch that the response names.
    pub(super) files: usize,
    /// Number of correct names, each in the correct file.
    pub(super) names: usize,
    /// Number of exact signatures, each in the correct file.
    pub(super) signatures: usize,
}
