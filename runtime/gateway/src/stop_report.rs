//! Reads why a response ended, as the endpoint reports it.
//!
//! The codecs treat a missing reason as a normal end, because some endpoints never give one. If an
//! endpoint has given reasons before, a response without one was cut off. Some servers stop at a
//! string that the request did not set, for example from a conversation template. Such a response
//! looks complete, but the rest of the model's turn is missing.

use proctor_types::Api;
use serde_json::Value;

use crate::{
    TrialGateway,
    attempt_failure::AttemptFailure,
    checks::{StopStringCheck, UnfinishedResponseCheck},
    codec::lenient_json,
    responder::json_objects,
    send::AttemptResult,
};

/// What a response reports about its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StopReport {
    /// Whether the response gives a reason. `None` if the response cannot be read.
    pub has_reason: Option<bool>,
    /// The string at which the server stopped.
    pub stop_string: Option<String>,
}

impl StopReport {
    /// Reads the report from the bytes of a response in any format.
    pub(crate) fn read(raw: &[u8]) -> Self {
        let text = String::from_utf8_lossy(raw);
        // `None` if there is no object.
        let mut is_readable = None;
        // The reason is usually in one of the last events.
        for object in json_objects(&text).rev() {
            let Ok(object) = lenient_json::parse(object.as_bytes()) else {
                is_readable = Some(false);
                continue;
            };
            is_readable.get_or_insert(true);
            if has_reason(&object) {
                return Self { has_reason: Some(true), stop_string: read_stop_string(&object) };
            }
        }
        let has_reason = is_readable.unwrap_or_default().then_some(false);
        Self { has_reason, stop_string: None }
    }
}

fn has_reason(object: &Value) -> bool {
    let is_given = |reason: &Value| match reason {
        Value::Null => false,
        Value::String(word) => !matches!(word.trim(), "" | "null"),
        _ => true,
    };
    let mut choices = object["choices"].as_array().into_iter().flatten();
    choices.any(|choice| is_given(&choice["finish_reason"]))
        || is_given(&object["stop_reason"])
        || is_given(&object["delta"]["stop_reason"])
        || is_given(&object["candidates"][0]["finishReason"])
        || is_given(&object["promptFeedback"]["blockReason"])
        || is_given(&object["response"]["status"])
}

/// Returns the string at which the server stopped. vLLM's `stop_reason` and SGLang's `matched_stop`
/// are numbers or null if the model ended its turn itself.
fn read_stop_string(object: &Value) -> Option<String> {
    let choices = object["choices"].as_array().into_iter().flatten();
    let of_choices = choices.flat_map(|choice| [&choice["stop_reason"], &choice["matched_stop"]]);
    let of_messages = [&object["stop_sequence"], &object["delta"]["stop_sequence"]];
    let mut strings = of_choices.chain(of_messages).filter_map(Value::as_str);
    strings.find(|text| !text.is_empty()).map(ToOwned::to_owned)
}

impl StopStringCheck {
    /// Whether the server's own settings contain the stop string. `request` is JSON without
    /// whitespace. Ignores special tokens and stop words such as `end_turn`: they end the model's
    /// turn.
    pub(crate) fn is_foreign(&self, stop_string: &str, request: &[u8]) -> bool {
        let is_word_char = |one: char| one.is_alphanumeric() || matches!(one, '_' | '-');
        let text = stop_string.trim();
        let ends_turn = text.starts_with(['<', '[']) || stop_string.chars().all(is_word_char);
        let is_requested = |setting: &String| {
            memchr::memmem::find(request, format!("\"{setting}\":").as_bytes()).is_some()
        };
        !ends_turn && !self.settings.iter().any(is_requested)
    }
}

impl TrialGateway {
    /// Returns why a response without a stop reason must be requested again, if the endpoint has
    /// given reasons earlier in this run. A response with calls is complete enough to continue.
    pub(crate) fn find_missing_stop(
        &self,
        check: &UnfinishedResponseCheck,
        result: &AttemptResult,
    ) -> Option<AttemptFailure> {
        let (model, halts) = (&self.route().model, &self.route().halts);
        // Providers behind a router may differ.
        let provider = result.names.responder.as_ref().and_then(|named| named.provider.as_deref());
        let provider = provider.unwrap_or_default();
        if result.stop.has_reason? {
            halts.note_stop_reason(model, provider);
            return None;
        }
        // The codec of the Responses API rejects a response that is not complete.
        let is_unfinished = model.api != Api::Responses
            && result.response.calls().next().is_none()
            && halts.gives_stop_reasons(model, provider);
        let why = "the response is incomplete: it has no stop reason, but earlier responses did";
        is_unfinished.then(|| AttemptFailure::corrupted_response(why, &check.hint))
    }
}

#[cfg(test)]
mod tests {
    use super::StopReport;
    use crate::checks::EndpointChecks;

    #[test]
    fn stop_reasons_are_found_in_every_format() {
        for (raw, has_reason) in [
            (r#"{"choices": [{"finish_reason": "stop"}]}"#, Some(true)),
            (r#"{"choices": [{"finish_reason": null}]}"#, Some(false)),
            (r#"{"choices": [{"finish_reason": "null"}]}"#, Some(false)),
            (
                r#"{"choices": [{"finish_reason": ""}, {"finish_reason": "tool_calls"}]}"#,
                Some(true),
            ),
            (
                "data: {\"choices\": [{\"finish_reason\": \"stop\"}]}\n\n\
                 data: {\"choices\": [], \"usage\": {}}\n\ndata: [DONE]\n\n",
                Some(true),
            ),
            ("data: {\"choices\": [{\"finish_reason\": null}]}\n\ndata: [DONE]\n\n", Some(false)),
            (r#"{"content": [], "stop_reason": null}"#, Some(false)),
            (
                "event: message_delta\ndata: {\"delta\": {\"stop_reason\": \"end_turn\"}}\n\n\
                 event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n",
                Some(true),
            ),
            (r#"{"candidates": [{"finishReason": "STOP"}]}"#, Some(true)),
            (r#"{"promptFeedback": {"blockReason": "SAFETY"}}"#, Some(true)),
            (
                "event: response.completed\ndata: {\"type\": \"response.completed\", \
                 \"response\": {\"status\": \"completed\"}}\n\n",
                Some(true),
            ),
            (r#"{"candidates": [{"content": {}}]}"#, Some(false)),
            ("data: {\"choices\": [\ndata: ]}\n\n", None),
            ("[{\"candidates\": []}]", None),
            ("<html>", None),
        ] {
            assert_eq!(StopReport::read(raw.as_bytes()).has_reason, has_reason, "{raw}");
        }
    }

    #[test]
    fn stop_strings_are_found_in_every_format() {
        for (raw, wanted) in [
            (
                r####"{"choices": [{"finish_reason": "stop", "stop_reason": "###"}]}"####,
                Some("###"),
            ),
            (r#"{"choices": [{"finish_reason": "stop", "stop_reason": 151645}]}"#, None),
            (r#"{"choices": [{"finish_reason": "stop", "stop_reason": null}]}"#, None),
            (r#"{"choices": [{"finish_reason": "stop", "matched_stop": "User:"}]}"#, Some("User:")),
            (r####"{"stop_reason": "stop_sequence", "stop_sequence": "###"}"####, Some("###")),
            (
                "data: {\"delta\": {\"stop_reason\": \"stop_sequence\", \"stop_sequence\": \"###\"}}\n\n",
                Some("###"),
            ),
            (r#"{"stop_reason": "end_turn", "stop_sequence": null}"#, None),
        ] {
            assert_eq!(StopReport::read(raw.as_bytes()).stop_string.as_deref(), wanted, "{raw}");
        }
    }

    #[test]
    fn only_strings_that_the_request_did_not_set_are_foreign() {
        let check = &EndpointChecks::shipped().expect("a valid table").stop_string;
        for text in ["###", "User:", "\n\n", "\nObservation"] {
            assert!(check.is_foreign(text, br#"{"messages":[]}"#), "{text}");
            assert!(!check.is_foreign(text, br####"{"messages":[],"stop":["###"]}"####), "{text}");
            assert!(!check.is_foreign(text, br####"{"stop_sequences":["###"]}"####), "{text}");
        }
        let quoted = br#"{"messages":[{"content":"set \"stop\": to a list"}]}"#;
        assert!(check.is_foreign("###", quoted));
        for text in ["<|im_end|>", "</s>", "[EOS]", "end_turn", "stop", "eos"] {
            assert!(!check.is_foreign(text, b"{}"), "{text}");
        }
    }
}
