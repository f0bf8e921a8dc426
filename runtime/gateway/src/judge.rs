//! Classifies an attempt as a response, a retry or a final failure.

use std::time::Duration;

use proctor_types::{Fault, FaultCause, FaultLayer};
use serde_json::Value;

use crate::{
    attempt_failure::{AttemptFailure, FailureKind},
    codec::sse,
    endpoint::Endpoint,
    error_text::{error_message, first_words, is_web_page, quote_body},
    lost_time::stall_start,
    rejections::{self, ErrorSubject},
    send::{AttemptEnd, AttemptResult, ResponseProgress},
    trial::CancelReason,
};

/// The hint for a page that a proxy returns instead of the endpoint's response.
const BLOCKED_HINT: &str = "a proxy in front of the endpoint blocks requests from this machine, for \
                            example with a bot check: change the proxy's rules or base_url, then \
                            `proctor resume` the run";

/// The hint for a response in the chat format without a message.
const NO_MESSAGE_HINT: &str = "the endpoint's responses don't follow the Chat Completions format: \
                               use another version of the server or the proxy, or set `api` of \
                               the model to the format that the endpoint uses, then `proctor \
                               resume` the run";

#[derive(Debug)]
pub(crate) enum Judgement {
    Answered,
    /// The attempt is worth a retry.
    Retry(AttemptFailure),
    /// The gateway ended the attempt, because the trial reached a time limit or was cancelled.
    Cancelled(CancelReason),
    /// The endpoint rejected this particular request.
    Rejected {
        status: u16,
        body: String,
    },
    /// The endpoint is not usable as configured.
    Unusable(Fault),
}

impl Judgement {
    /// Returns the time that was lost to the endpoint, depending on how the attempt ended.
    pub(crate) fn lost_time(
        &self,
        result: &AttemptResult,
        response_progress: &ResponseProgress,
    ) -> Duration {
        match self {
            Self::Retry(_) => result.duration,
            Self::Cancelled(_) => match response_progress.last_progress() {
                None => result.duration,
                Some(last) => {
                    result.queue_time
                        + stall_start(last).map_or(Duration::ZERO, |since| since.elapsed())
                }
            },
            Self::Answered | Self::Rejected { .. } | Self::Unusable(_) => result.queue_time,
        }
    }
}

/// Classifies an attempt by its status and bytes.
pub(crate) fn judge(result: &AttemptResult, endpoint: &Endpoint) -> Judgement {
    match &result.end {
        Some(AttemptEnd::Cancelled(cut)) => return Judgement::Cancelled(*cut),
        Some(AttemptEnd::Broken(broken)) => {
            // The endpoint reported an error inside a stream. If no content preceded the error, it
            // is handled like an error response.
            if let Some(said) =
                broken.reported_error.as_deref().filter(|_| result.response.items.is_empty())
                && let Some(judged) = classify_error_body(said, endpoint)
            {
                return judged;
            }
            return Judgement::Retry(broken.to_failure(result.status, result.retry_after));
        }
        None => {}
    }
    match (result.status.unwrap_or_default(), &result.parse_failure) {
        (200..=299, None) => match result.response.defect() {
            None => Judgement::Answered,
            Some(why) => {
                let status = result.status.unwrap_or_default();
                let brief = format!("{status} {}", first_words(&why));
                Judgement::Retry(AttemptFailure {
                    short_reason: brief,
                    retry_after: result.retry_after,
                    ..AttemptFailure::new(FailureKind::Empty, why)
                })
            }
        },
        (200..=299, Some((why, _))) => {
            let body = String::from_utf8_lossy(&result.raw);
            classify_error_body(&body, endpoint).unwrap_or_else(|| {
                Judgement::Retry(
                    describe_malformed_response(why, &result.raw, result.status)
                        .with_retry_after(result.retry_after),
                )
            })
        }
        (status, _) => classify_error_status(status, &result.raw, result.retry_after, endpoint),
    }
}

/// Classifies an error that was sent with status 200 although it is a rejection.
fn classify_error_body(body: &str, endpoint: &Endpoint) -> Option<Judgement> {
    let subject = rejections::classify_error(200, body);
    let judged = match subject {
        ErrorSubject::ContextOverflow
        | ErrorSubject::ContentFilter
        | ErrorSubject::UnkeptItem
        | ErrorSubject::Tools => {
            Judgement::Rejected { status: 400, body: endpoint.redact_text(body) }
        }
        ErrorSubject::Billing => {
            unusable_endpoint(endpoint, quote_body(&endpoint.redact_text(body)), 402)
        }
        ErrorSubject::Key => {
            unusable_endpoint(endpoint, quote_body(&endpoint.redact_text(body)), 401)
        }
        ErrorSubject::RateLimit
        | ErrorSubject::Challenge
        | ErrorSubject::Proxy
        | ErrorSubject::UnknownModel
        | ErrorSubject::Unknown => {
            return None;
        }
    };
    Some(judged)
}

/// Classifies a response with an error status. Its text takes precedence over the status, because
/// endpoints report rate limits, missing credit and filters with many different statuses.
fn classify_error_status(
    status: u16,
    body: &[u8],
    retry_after: Option<Duration>,
    endpoint: &Endpoint,
) -> Judgement {
    let body = endpoint.redact_text(&String::from_utf8_lossy(body));
    let shown =
        if body.trim_start().starts_with('<') { error_message(&body) } else { body.clone() };
    let message = format!("status {status}: {}", quote_body(&shown));
    let failure = |kind: FailureKind, hint: Option<&str>| AttemptFailure {
        short_reason: format!("{status} {}", first_words(&error_message(&body))),
        retry_after,
        hint: hint.map(ToOwned::to_owned),
        ..AttemptFailure::new(kind, message.as_str())
    };
    let subject = rejections::classify_error(status, &body);
    match (status, subject) {
        (_, ErrorSubject::Billing) => unusable_endpoint(endpoint, message, 402),
        (400, ErrorSubject::Key) => unusable_endpoint(endpoint, message, 401),
        // 498: Groq's flex tier is full. 499: Google canceled the request.
        (_, ErrorSubject::RateLimit) | (408 | 409 | 425 | 429 | 498 | 499 | 500..=599, _) => {
            Judgement::Retry(failure(FailureKind::Endpoint, None))
        }
        // A proxy wrote this page, so it says nothing about the key or the model.
        (_, ErrorSubject::Challenge) | (403, ErrorSubject::Proxy) if is_web_page(&body) => {
            Judgement::Retry(failure(FailureKind::NotAModelApi, Some(BLOCKED_HINT)))
        }
        (
            _,
            ErrorSubject::ContextOverflow | ErrorSubject::ContentFilter | ErrorSubject::UnkeptItem,
        ) => Judgement::Rejected { status, body },
        // A router returns this status for a model without tool support.
        (404 | 405, ErrorSubject::Tools) => Judgement::Rejected { status, body },
        (401..=405 | 300..=399, _) => unusable_endpoint(endpoint, message, status),
        _ => Judgement::Rejected { status, body },
    }
}

/// Describes a body that is not a valid response although its status is a success.
fn describe_malformed_response(reason: &str, body: &[u8], status: Option<u16>) -> AttemptFailure {
    let status = status.map_or_else(String::new, |status| format!("{status} "));
    if is_not_from_model_api(body) {
        let body = String::from_utf8_lossy(body);
        let what = format!("not a model response: {}", quote_body(&error_message(&body)));
        let brief = format!("{status}{}", first_words(&what));
        return AttemptFailure {
            short_reason: brief,
            ..AttemptFailure::new(FailureKind::NotAModelApi, what)
        };
    }
    let why = format!("malformed response: {reason}");
    let brief = format!("{status}{}", first_words(&why));
    // More attempts rarely help if the server uses another format.
    let (kind, hint) = match lacks_message(body) {
        true => (FailureKind::Empty, Some(NO_MESSAGE_HINT.to_owned())),
        false => (FailureKind::Endpoint, None),
    };
    AttemptFailure { short_reason: brief, hint, ..AttemptFailure::new(kind, why) }
}

/// Whether the body is a response in the chat format whose choice has no message.
fn lacks_message(body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    let choice = &body["choices"][0];
    choice.is_object()
        && !choice["message"].is_object()
        && choice["error"].is_null()
        && body["error"].is_null()
}

/// Whether the body does not come from a model API: it is a web page, plain text, or an object
/// without the fields of any API.
fn is_not_from_model_api(body: &[u8]) -> bool {
    const API_FIELDS: [&str; 9] = [
        "choices",
        "error",
        "usage",
        "output",
        "content",
        "candidates",
        "usageMetadata",
        "id",
        "promptFeedback",
    ];
    match body.trim_ascii_start().first() {
        None => false,
        Some(b'{') => serde_json::from_slice::<Value>(body)
            .is_ok_and(|body| API_FIELDS.iter().all(|field| body.get(field).is_none())),
        Some(b'[') => false,
        Some(_) => {
            let head = body.trim_ascii_start();
            !sse::LINE_PREFIXES.iter().any(|field| head.starts_with(field))
        }
    }
}

fn unusable_endpoint(endpoint: &Endpoint, message: String, status: u16) -> Judgement {
    let fault = Fault::new(FaultLayer::Model, format!("{}: {message}", endpoint.base_url()));
    Judgement::Unusable(fault.hint(endpoint.status_hint(status)).cause(FaultCause::Refused))
}

#[cfg(test)]
mod tests {
    use proctor_types::ModelSpec;
    use serde_json::json;

    use super::{Judgement, classify_error_status, describe_malformed_response};
    use crate::{attempt_failure::FailureKind, endpoint::Endpoint};

    #[test]
    fn proxy_pages_are_retried_and_endpoint_errors_are_final() {
        let spec: ModelSpec =
            serde_json::from_value(json!({"base_url": "http://h/v1", "name": "m"}))
                .expect("a model");
        let endpoint = Endpoint::new(&spec, &|_: &str| None).expect("an endpoint");
        let classify = |status: u16, body: &str| {
            classify_error_status(status, body.as_bytes(), None, &endpoint)
        };
        let page = |title: &str| {
            format!("<!DOCTYPE html><html><head><title>{title}</title></head></html>")
        };
        for (status, title) in [
            (403, "Just a moment..."),
            (401, "Just a moment..."),
            (404, "Attention Required! | Cloudflare"),
            (413, "ERROR: The request could not be satisfied"),
            (403, "403 Forbidden"),
        ] {
            let judged = classify(status, &page(title));
            let Judgement::Retry(failure) = judged else { panic!("{status} {title}: {judged:?}") };
            let hint = failure.hint.expect("a hint");
            assert!(!hint.contains("key") && hint.contains("proxy"), "{hint}");
        }
        assert!(matches!(classify(503, &page("Just a moment...")), Judgement::Retry(_)));
        // These errors may come from the endpoint, or the URL may be wrong.
        let api_error = json!({"error": {"message": "Just a moment..."}}).to_string();
        for (status, body) in [
            (401, page("401 Authorization Required")),
            (404, page("404 Not Found")),
            (403, "Forbidden".to_owned()),
            (403, api_error),
        ] {
            let judged = classify(status, &body);
            assert!(matches!(judged, Judgement::Unusable(_)), "{status} {body}: {judged:?}");
        }
    }

    #[test]
    fn responses_without_a_message_fail_after_few_attempts() {
        for (body, kind) in [
            (
                json!({"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}),
                FailureKind::Empty,
            ),
            (json!({"choices": [{"text": "a", "finish_reason": "stop"}]}), FailureKind::Empty),
            (json!({"choices": []}), FailureKind::Endpoint),
            (
                json!({"choices": [{"delta": {}, "error": {"message": "overloaded"}}]}),
                FailureKind::Endpoint,
            ),
            (
                json!({"choices": [{"delta": {}}], "error": {"message": "overloaded"}}),
                FailureKind::Endpoint,
            ),
        ] {
            let body = body.to_string();
            let failure = describe_malformed_response("no message", body.as_bytes(), Some(200));
            assert_eq!(failure.kind, kind, "{body}");
            assert_eq!(failure.hint.is_some(), kind == FailureKind::Empty, "{body}");
        }
    }
}
