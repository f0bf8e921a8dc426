//! What is kept of a trial beside its trajectory: `single-shot.json`.

use proctor_answers::{EditReport, natural::Problem};
use serde::Serialize;

use super::settings::Settings;

/// The name of the file.
pub(super) const FILE: &str = "single-shot.json";

/// What was shown, what was answered, and what came of it.
#[derive(Debug, Serialize)]
pub(super) struct Evidence<'a> {
    pub(super) schema_version: u32,
    pub(super) settings: &'a Settings,
    /// What counted the tokens: `o200k_base`, `cl100k_base`, or the digest of the model's own tokenizer.
    pub(super) tokenizer: String,
    pub(super) prompt_tokens: u64,
    /// The prompt does not fit the model's window, and nothing was asked.
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
    /// Shown whatever is retrieved: those with new components, and those to be made.
    pub(super) always: Vec<String>,
    /// Tokens before anything was retrieved.
    pub(super) base_tokens: u64,
    /// Best first.
    pub(super) retrieved: Vec<Retrieved>,
    /// All code files of the prompt, sorted.
    pub(super) files: Vec<String>,
    /// Of Python files, against those of the gold. Absent: the gold has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quality: Option<Quality>,
}

/// A file that was to be shown.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Retrieved {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f64>,
    pub(super) tokens: u64,
    /// False: it did not fit, and the next one was tried.
    pub(super) shown: bool,
}

/// As the paper's Table 3 has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Quality {
    pub(super) precision: f64,
    pub(super) recall: f64,
    /// Every file of the gold is there.
    pub(super) recall_all: bool,
}

/// The answer, and what came of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct AnswerRecord {
    pub(super) finish_reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) edits: Vec<EditReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<Problem>,
    /// The commands that were tried for a patch answer, in order, and how each ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) applied_by: Vec<Tried>,
    /// Something was applied.
    pub(super) applied: bool,
    /// All of it was.
    pub(super) whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probe: Option<ProbeRecord>,
}

/// One command of a benchmark's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Tried {
    pub(super) command: String,
    /// Empty: it applied the patch.
    pub(super) why: String,
}

/// What a model knew without having been told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ProbeRecord {
    /// Definitions that the answer names.
    pub(super) named: usize,
    /// Definitions of the gold.
    pub(super) gold: usize,
    /// Files of the gold's definitions that the answer names.
    pub(super) files: usize,
    /// Names in the right file.
    pub(super) names: usize,
    /// Signatures, to the letter, in the right file.
    pub(super) signatures: usize,
}
