//! A model's description of a task: a paragraph above the interfaces of its statement.

use proctor_datasets::fill;
use proctor_types::{Fault, Layer};
use serde::Serialize;

use super::{answers::Answers, statement::told};

const PROMPT: &str = include_str!("../../../../prompts/collection/prose.md.j2");

/// Fewer words say nothing, and more are not a summary.
const WORDS: std::ops::RangeInclusive<usize> = 8..=300;

/// What a model is shown: code that an agent will not see.
#[derive(Serialize)]
pub(super) struct Feature<'a> {
    pub(super) package: &'a str,
    pub(super) summary: &'a str,
    pub(super) code: &'a str,
    /// What the statement shows of the code anyway.
    pub(super) stubs: &'a str,
}

/// # Errors
/// The endpoint did not respond, or every response quotes the code.
pub(super) async fn prose(
    answers: &Answers<'_>,
    file: &str,
    feature: Feature<'_>,
) -> Result<String, Fault> {
    let question = fill(PROMPT, &feature).map_err(|error| {
        Fault::new(Layer::Environment, format!("prompts/collection/prose.md.j2: {error}"))
    })?;
    let read = |answer: &str| read(answer, &feature);
    let what = "a description of the feature that quotes none of its lines";
    answers.ask("prose", &question, read, (file, what)).await
}

fn read(answer: &str, feature: &Feature<'_>) -> Option<String> {
    let text = answer.trim();
    let is_told = told(feature.code, feature.stubs, &[text]) > 0.0;
    let is_plain = !text.contains("```") && WORDS.contains(&text.split_whitespace().count());
    (is_plain && !is_told).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_that_quote_code_are_rejected() {
        let code = "def f(length):\n    \"\"\"Doc.\"\"\"\n    return length * math.pi / 180.0\n";
        let feature = Feature { package: "p", summary: "", code, stubs: "def f(length):\n" };
        let said = "Angles are given in degrees, and callers want radians of the same sign.";
        assert_eq!(read(&format!("\n{said}\n"), &feature).as_deref(), Some(said));
        let quoted = format!("{said}\n\n    return length * math.pi / 180.0\n");
        assert_eq!(read(&quoted, &feature), None);
        assert_eq!(read(&format!("{said}\n```\nx\n```"), &feature), None);
        assert_eq!(read("Too short.", &feature), None);
    }
}
