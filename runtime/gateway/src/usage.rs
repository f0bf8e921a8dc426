//! Determines the token usage of a response: the endpoint's count, or our own if the endpoint's is
//! missing or impossible.

use bytes::Bytes;
use proctor_types::{Api, Usage};
use serde_json::Value;

use crate::{
    checks::EndpointChecks,
    codec::{
        self, Losses,
        neutral::{CollectedResponse, Item},
    },
    tokens,
};

/// Returns the usage that is charged for a response. Our own counts are marked as estimated.
///
/// For a long text, some servers report no output tokens, or only those of the first event. With
/// such counts, no limit on tokens or cost would ever be reached.
pub(crate) async fn count_usage(api: Api, request: &Bytes, response: &CollectedResponse) -> Usage {
    let Some(reported) = response.usage else {
        return estimate_usage(api, request, response).await;
    };
    let Ok(checks) = EndpointChecks::shipped() else { return reported };
    let most = (request.len() as u64).saturating_mul(checks.input.tokens_per_byte);
    let is_inflated = reported.input >= checks.input.least_tokens && reported.input > most;
    // An input count of zero must be wrong, because a request is never empty.
    if reported.input == 0 || is_inflated {
        let ours = estimate_usage(api, request, response).await;
        let output = if reported.output == 0 { ours.output } else { reported.output };
        return Usage { output, reasoning: reported.reasoning.min(output), ..ours };
    }
    if count_output_bytes(response, reported.output == 0)
        <= reported.output.saturating_mul(checks.output.bytes_per_token)
    {
        return reported;
    }
    let answer = response.to_model_response();
    let ours = tokio::task::spawn_blocking(move || tokens::count_response(&answer)).await;
    let ours = ours.unwrap_or_default();
    match ours > reported.output.saturating_mul(checks.output.factor) {
        true => reported.with_output_estimate(ours),
        false => reported,
    }
}

/// Returns the number of bytes in a response's text and calls. If `includes_reasoning` is set, also
/// counts the response's reasoning, which some endpoints do not count.
pub(crate) fn count_output_bytes(response: &CollectedResponse, includes_reasoning: bool) -> u64 {
    let bytes = response.items.iter().map(|item| match item {
        Item::Text(text) | Item::Refusal(text) => text.len(),
        Item::Call(call) => call.name.len() + call.arguments.len(),
        Item::Reasoning(thought) if includes_reasoning => thought.text.len(),
        Item::Reasoning(_) => 0,
    });
    bytes.sum::<usize>() as u64
}

/// Returns our own count of the request and of the received response.
async fn estimate_usage(api: Api, request: &Bytes, response: &CollectedResponse) -> Usage {
    let (request, answer) = (request.clone(), response.to_model_response());
    // Run this off the async threads, because parsing a long conversation takes many milliseconds.
    let counted = tokio::task::spawn_blocking(move || {
        let input = match parse_request(api, &request) {
            Some(request) => tokens::count_request(&request),
            // This also counts the JSON syntax, which roughly makes up for the chat template that
            // an endpoint counts.
            None => tokens::count(&String::from_utf8_lossy(&request)),
        };
        (input, tokens::count_response(&answer))
    });
    let (input, output) = counted.await.unwrap_or_default();
    Usage { input, output, estimated: true, ..Usage::default() }
}

/// Returns our own count of a request's input.
pub(crate) async fn estimate_input(api: Api, request: &Bytes) -> u64 {
    estimate_usage(api, request, &CollectedResponse::default()).await.input
}

/// Parses a request that the gateway sends.
pub(crate) fn parse_request(api: Api, request: &[u8]) -> Option<codec::Request> {
    let body: Value = serde_json::from_slice(request).ok()?;
    codec::read_request(api, body.as_object()?, &mut Losses::default()).ok()
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, Usage};

    use super::count_usage;
    use crate::codec::neutral::{CollectedResponse, Delta, StopReason};

    fn collected_response(text: &str, usage: Option<(u64, u64)>) -> CollectedResponse {
        let mut whole = CollectedResponse::from_deltas(vec![
            Delta::Text(text.into()),
            Delta::Stopped(StopReason::End),
        ]);
        whole.usage = usage.map(|(input, output)| {
            Usage::from_endpoint_report((input, output), (None, None), None)
        });
        whole
    }

    async fn counted_output(text: &str, usage: Option<(u64, u64)>) -> (u64, bool) {
        let request = r#"{"model":"m","messages":[{"role":"user","content":"hello world"}]}"#;
        let usage = count_usage(Api::Chat, &request.into(), &collected_response(text, usage)).await;
        assert!(usage.input > 0);
        if let Some(classes) = usage.classes.output_visible {
            assert_eq!(classes, usage.output - usage.reasoning);
        }
        (usage.output, usage.estimated)
    }

    #[tokio::test]
    async fn output_that_the_endpoint_did_not_count_is_estimated() {
        let long = "one two three four ".repeat(105);
        for (text, reported, least, estimated) in [
            (&*long, None, 400, true),
            (&*long, Some((100, 0)), 400, true),
            // The endpoint counted only the first event.
            (&*long, Some((100, 1)), 400, true),
            (&*long, Some((0, 0)), 400, true),
            ("x", Some((100, 0)), 1, true),
            // A plausible count is trusted, whatever tokenizer the endpoint uses.
            (&*long, Some((100, 421)), 421, false),
            (&*long, Some((100, 150)), 150, false),
            ("", Some((100, 0)), 0, false),
        ] {
            let (output, is_estimated) = counted_output(text, reported).await;
            assert!(output >= least, "{reported:?}: {output}");
            assert_eq!(is_estimated, estimated, "{reported:?} of {} bytes", text.len());
        }
    }
}
