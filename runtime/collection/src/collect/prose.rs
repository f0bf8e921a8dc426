//! Asks a model to describe a task in one paragraph. The statement shows this description before
//! the interfaces.

use proctor_datasets::render_template;
use proctor_types::{Fault, FaultLayer};
use serde::Serialize;

use super::{answers::CachedModel, statement::quoted_fraction};

const DESCRIPTION_PROMPT: &str = include_str!("../../../../prompts/collection/prose.md.j2");

/// Accepted number of words. Shorter descriptions say too little, and longer ones are not
/// summaries.
const WORD_COUNT_RANGE: std::ops::RangeInclusive<usize> = 8..=300;

/// The prompt's variables. The model sees code that the agent will not see.
#[derive(Serialize)]
pub(super) struct Feature<'a> {
    pub(super) package: &'a str,
    pub(super) summary: &'a str,
    pub(super) code: &'a str,
    /// The parts of the code that the statement shows.
    pub(super) stubs: &'a str,
}

/// Asks the model for a description of the feature.
///
/// # Errors
/// Fails if the endpoint did not respond, or if every response is unusable because it quotes the
/// code or has the wrong length.
pub(super) async fn describe_feature(
    cached_model: &CachedModel<'_>,
    file: &str,
    feature: Feature<'_>,
) -> Result<String, Fault> {
    let question = render_template(DESCRIPTION_PROMPT, &feature).map_err(|error| {
        Fault::new(FaultLayer::Environment, format!("prompts/collection/prose.md.j2: {error}"))
    })?;
    let read = |answer: &str| parse_description(answer, &feature);
    let message = "a description of the feature that quotes none of its lines";
    cached_model.ask("prose", &question, read, (file, message)).await
}

fn parse_description(response: &str, feature: &Feature<'_>) -> Option<String> {
    let text = response.trim();
    let is_told = quoted_fraction(feature.code, feature.stubs, &[text]) > 0.0;
    let is_plain =
        !text.contains("```") && WORD_COUNT_RANGE.contains(&text.split_whitespace().count());
    (is_plain && !is_told).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_description_rejects_quoted_code() {
        let code = "def f(length):\n    \"\"\"Doc.\"\"\"\n    return length * math.pi / 180.0\n";
        let feature = Feature { package: "p", summary: "", code, stubs: "def f(length):\n" };
        let said = "Angles are given in degrees, and callers want radians of the same sign.";
        assert_eq!(parse_description(&format!("\n{said}\n"), &feature).as_deref(), Some(said));
        let quoted = format!("{said}\n\n    return length * math.pi / 180.0\n");
        assert_eq!(parse_description(&quoted, &feature), None);
        assert_eq!(parse_description(&format!("{said}\n```\nx\n```"), &feature), None);
        assert_eq!(parse_description("Too short.", &feature), None);
    }
}
