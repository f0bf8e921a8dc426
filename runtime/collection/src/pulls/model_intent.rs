//! Asks a model whether a pull request adds a feature.

use proctor_datasets::render_template;
use proctor_types::{Fault, Layer};
use serde::{Deserialize, Serialize};

use super::{candidate::Candidate, intent::Intent};
use crate::collect::answers::{CachedModel, last_json};

const PROMPT: &str = include_str!("../../../../prompts/collection/intent.md.j2");

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
    answers: &CachedModel<'_>,
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
    let question = render_template(PROMPT, question).map_err(|error| {
        Fault::new(Layer::Environment, format!("prompts/collection/intent.md.j2: {error}"))
    })?;
    let of = format!("pull request {}", candidate.number);
    let what = "a decision on whether the pull request adds a feature";
    let answered: IntentResponse =
        answers.ask("intent", &question, last_json, (of.as_str(), what)).await?;
    let why = format!("{} decided: {}", answers.model().name(), answered.reasoning);
    Ok(Intent { feature: answered.new_feature, why })
}
