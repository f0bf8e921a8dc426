//! What is stored for a trial beside its trajectory: `single-shot.json`.

use proctor_answers::{EditReport, natural::Problem};
use serde::Serialize;

use super::settings::Settings;

/// The name of the file.
pub(super) const FILE: &str = "single-shot.json";

/// The prompt's content, the response, and the result.
#[derive(Debug, Serialize)]
pub(super) struct Evidence<'a> {
    pub(super) schema_version: u32,
    pub(super) settings: &'a Settings,
    /// The token counter: `o200k_base`, `cl100k_base`, or the digest of the model's own tokenizer.
    pub(super) tokenizer: String,
    pub(super) prompt_tokens: u64,
    /// The prompt does not fit the model's context window, and no request was sent.
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
    /// Shown whatever is retrieved: files with new components, and files to be created.
    pub(super) always: Vec<String>,
    /// Tokens before retrieval.
    pub(super) base_tokens: u64,
    /// Best first.
    pub(super) retrieved: Vec<Retrieved>,
    /// All code files of the prompt, sorted.
    pub(super) files: Vec<String>,
    /// For Python files, compared with those of the gold patch. Absent: the gold patch has none.
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
    /// False: it did not fit, and the next one was tried.
    pub(super) shown: bool,
}

/// As in the paper's Table 3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Quality {
    pub(super) precision: f64,
    pub(super) recall: f64,
    /// Every file of the gold patch is present.
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
    /// The commands tried for a patch response, in order, and the result of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) applied_by: Vec<Tried>,
    /// Something was applied.
    pub(super) applied: bool,
    /// Everything was applied.
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

/// What a model knew without being told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct ProbeRecord {
    /// Definitions that the response names.
    pub(super) named: usize,
    /// Definitions in the gold patch.
    pub(super) gold: usize,
    /// Files of the gold patch's definitions that the response names.
    pub(super) files: usize,
    /// Names in the right file.
    pub(super) names: usize,
    /// Exact signatures in the right file.
    pub(super) signatures: usize,
}
