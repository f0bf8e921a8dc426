//! Detects responses that a proxy wrote instead of the model. Such a response has status 200, but
//! its text is an error message or says that the proxy's account has reached a limit.

use serde_json::Value;

use crate::{
    TrialGateway, attempt_failure::AttemptFailure, checks::ErrorTextCheck,
    codec::neutral::StopReason, error_text::quote_body, responder::json_objects,
    send::AttemptResult,
};

impl TrialGateway {
    /// If a proxy wrote the response, returns why the response must be requested again. `text` is
    /// the response's text.
    pub(crate) fn find_proxy_text(
        &self,
        check: &ErrorTextCheck,
        result: &AttemptResult,
        text: &str,
    ) -> Option<AttemptFailure> {
        let whole = &result.response;
        let is_blocked =
            matches!(whole.reported_stop, Some(StopReason::Filter | StopReason::Refusal));
        if is_blocked || whole.calls().next().is_some() {
            return None;
        }
        let text = text.trim();
        let is_placeholder = check.models.contains(&whole.model);
        let output = whole.usage.map_or(0, |usage| usage.output);
        // A proxy's error contains no code block, but the answers of a model without tools do.
        let may_be_error = output == 0 && !text.is_empty() && !text.contains("```");
        let counts_tokens = || self.route().halts.largest_prompt(&self.route().model) > 0;
        let why = if is_placeholder {
            format!("a proxy wrote the response, because its model name is `{}`", whole.model)
        } else if may_be_error && check.matches(text) {
            "the response's text is an error message".to_owned()
        } else if may_be_error
            && text.len() <= check.most_bytes
            && counts_tokens()
            && reports_no_tokens(&result.raw)
        {
            "the endpoint reports zero tokens for the response's text".to_owned()
        } else {
            return None;
        };
        let why = format!("{why}: {}", quote_body(text));
        Some(AttemptFailure::corrupted_response(why, &check.hint))
    }
}

/// Whether a response reports its usage, and every count is zero. A missing usage is different: many
/// servers omit it.
fn reports_no_tokens(raw: &[u8]) -> bool {
    let text = String::from_utf8_lossy(raw);
    let mut is_reported = false;
    for object in json_objects(&text) {
        let Ok(object) = serde_json::from_str::<Value>(object) else { continue };
        let places = [
            &object["usage"],
            &object["usageMetadata"],
            &object["message"]["usage"],
            &object["response"]["usage"],
        ];
        let counts = places.into_iter().filter_map(Value::as_object).flat_map(|all| all.values());
        for count in counts.filter_map(Value::as_u64) {
            if count > 0 {
                return false;
            }
            is_reported = true;
        }
    }
    is_reported
}

#[cfg(test)]
mod tests {
    use super::reports_no_tokens;

    #[test]
    fn only_reported_zeros_mean_no_tokens() {
        for (raw, wanted) in [
            (r#"{"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}"#, true),
            (
                "event: message_start\ndata: {\"message\": {\"usage\": {\"input_tokens\": 0, \
                 \"service_tier\": null}}}\n\ndata: {\"usage\": {\"output_tokens\": 0}}\n\n",
                true,
            ),
            (
                "data: {\"message\": {\"usage\": {\"input_tokens\": 9}}}\n\n\
                 data: {\"usage\": {\"output_tokens\": 0}}\n\n",
                false,
            ),
            (r#"{"choices": [], "usage": null}"#, false),
            (r#"{"choices": []}"#, false),
            ("data: {\"choices\": []}\n\ndata: [DONE]\n\n", false),
            ("", false),
        ] {
            assert_eq!(reports_no_tokens(raw.as_bytes()), wanted, "{raw}");
        }
    }
}
