//! Asks a model whether a pull request adds a feature.

use proctor_datasets::render_template;
use proctor_types::{Fault, FaultLayer};
use serde::{Deserialize, Serialize};

use super::{candidate::Candidate, intent::Intent};
use crate::collect::answers::{CachedModel, last_json};

const INTENT_PROMPT: &str = include_str!("../../../../prompts/collection/intent.md.j2");

#[derive(Serialize)]
struct Question<'a> {
    repo: &'a str,
    title: &'a str,
    body: &'a str,
    labels: &'a [String],
    functions: usize,
    classes: usize,
    new_lines: usize,
    edited: usize,
}

#[derive(Serialize, Deserialize)]
struct IntentResponse {
    new_feature: bool,
    #[serde(default)]
    reasoning: String,
}

/// Asks a model whether a candidate adds a feature.
///
/// # Errors
/// Fails if the endpoint did not respond, or if no response can be parsed.
pub(super) async fn ask_intent(
    cached_model: &CachedModel<'_>,
    repo: &str,
    candidate: &Candidate,
) -> Result<Intent, Fault> {
    let question = Question {
        repo,
        title: &candidate.title,
        body: &candidate.body,
        labels: &candidate.labels,
        functions: candidate.functions,
        classes: candidate.classes,
        new_lines: candidate.new_lines,
        edited: candidate.edited,
    };
    let question = render_template(INTENT_PROMPT, question).map_err(|error| {
        Fault::new(FaultLayer::Environment, format!("prompts/collection/intent.md.j2: {error}"))
    })?;
    let of = format!("pull request {}", candidate.number);
    let message = "a decision on whether the pull request adds a feature";
    let answered: IntentResponse =
        cached_model.ask("intent", &question, last_json, (of.as_str(), message)).await?;
    let reason = format!("{} decided: {}", cached_model.model().name(), answered.reasoning);
    Ok(Intent { is_feature: answered.new_feature, reason })
}
