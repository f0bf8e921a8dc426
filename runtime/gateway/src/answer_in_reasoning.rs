//! Answers that a server left in the reasoning.
//!
//! If the tag that ends the reasoning arrives in one chunk with other text, some reasoning parsers
//! miss it. They return the reasoning, the tag and the answer as reasoning, and no text.

use proctor_types::{ModelResponse, split_reasoning};
use serde_json::Value;

/// The fields with the model's reasoning. Some servers send both.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// If a response contains only reasoning, and the tag that ends the reasoning is followed by an
/// answer, moves the answer to the response's text. Returns whether the response changed.
pub(crate) fn move_answer_to_text(response: &mut ModelResponse) -> bool {
    let has_only_reasoning =
        response.content.trim().is_empty() && response.tool_calls.is_empty() && !response.refused;
    // The endpoint must get signed reasoning back unchanged.
    if !has_only_reasoning || response.extra.contains_key("reasoning_details") {
        return false;
    }
    let mut answer = None;
    for field in REASONING_FIELDS {
        let Some(Value::String(text)) = response.extra.get_mut(field) else { continue };
        let Some((reasoning, after)) = split_reasoning(text) else { continue };
        answer = Some(after.to_owned());
        let reasoning = reasoning.to_owned();
        *text = reasoning;
    }
    let Some(answer) = answer else { return false };
    response.content = answer;
    true
}

#[cfg(test)]
mod tests {
    use super::move_answer_to_text;
    use crate::codec::neutral::{CollectedResponse, Delta};

    #[test]
    fn answer_after_the_closing_tag_is_text() {
        let reasoning = |text: &str| vec![Delta::Reasoning(text.to_owned())];
        for text in ["I look.\n</think>\n\nDone.", "<mm:think>I look.\n</mm:think>\n\nDone."] {
            let mut response = CollectedResponse::from_deltas(reasoning(text)).to_model_response();
            assert!(move_answer_to_text(&mut response), "{text}");
            assert_eq!(response.content, "\n\nDone.");
            assert_eq!(response.extra["reasoning_content"], "I look.\n");
        }
        let signed = [reasoning("a</think>b"), vec![Delta::Signature("S".to_owned())]].concat();
        let with_text = [reasoning("a</think>b"), vec![Delta::Text("c".to_owned())]].concat();
        for deltas in [
            reasoning("I look."),
            reasoning("I look.\n</think>\n"),
            reasoning("The tag is `</think>`, so I write it."),
            signed,
            with_text,
        ] {
            let mut response = CollectedResponse::from_deltas(deltas).to_model_response();
            let before = response.clone();
            assert!(!move_answer_to_text(&mut response), "{before:?}");
            assert_eq!(response, before);
        }
    }
}
