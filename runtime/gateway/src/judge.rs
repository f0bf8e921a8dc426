//! Classifies an attempt as a response, a retry or a final failure.

use std::time::Duration;

use proctor_types::{Cause, Fault, Layer};
use serde_json::Value;

use crate::{
    codec::sse,
    endpoint::Endpoint,
    rejections::{self, Subject},
    send::{AttemptEnd, AttemptResult},
    trial::CancelReason,
    words::{first_words, quoted, said},
};

#[derive(Debug)]
pub(crate) enum Judgement {
    Answered,
    /// The attempt is worth a retry.
    Retry(Trouble),
    /// The trial ended the attempt: a time limit or a cancellation.
    Cut(CancelReason),
    /// The endpoint rejected this particular request.
    Rejected {
        status: u16,
        body: String,
    },
    /// The endpoint is not usable as configured.
    Unusable(Fault),
}

/// Why an attempt failed.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub kind: TroubleKind,
    /// The full reason, for the record.
    pub why: String,
    /// A short reason for the user: the status and the first words.
    pub brief: String,
    /// The pause that the endpoint requests.
    pub retry_after: Option<Duration>,
    /// How to fix it, if known.
    pub hint: Option<String>,
}

/// Kinds of trouble. They have different retry limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// The connection failed.
    Unreachable,
    /// A success status without a model response, such as a web page. Most often the URL is wrong.
    Foreign,
    /// No event arrived for as long as the policy allows.
    Silent,
    /// A success status without model output.
    Empty,
    /// A response that the provider's filter stopped.
    Filtered,
    /// A response that the server damaged or misparsed. It is requested again without streaming.
    Damaged,
    /// A response that ended at the server's default output limit. The gateway requests it again
    /// with an explicit limit.
    Capped,
    /// The endpoint responds, but it is overloaded, limits the rate, or cut the response.
    Endpoint,
}

impl Trouble {
    pub(crate) fn new(kind: TroubleKind, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { kind, brief: first_words(&why), why, retry_after: None, hint: None }
    }

    /// Describes a damaged response, with a hint on how to prevent the damage.
    pub(crate) fn damaged(why: impl Into<String>, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..Self::new(TroubleKind::Damaged, why) }
    }

    pub(crate) fn retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}

/// Classifies an attempt by its status and bytes.
pub(crate) fn judge(result: &AttemptResult, endpoint: &Endpoint) -> Judgement {
    match &result.ended {
        Some(AttemptEnd::Cut(cut)) => return Judgement::Cut(*cut),
        Some(AttemptEnd::Broken(broken)) => {
            // The endpoint reported its failure inside a stream. Before any content, that counts as
            // an ordinary rejection.
            if let Some(said) = broken.said.as_deref().filter(|_| result.whole.items.is_empty())
                && let Some(judged) = recognised(said, endpoint)
            {
                return judged;
            }
            return Judgement::Retry(broken.after(result.status, result.retry_after));
        }
        None => {}
    }
    match (result.status.unwrap_or_default(), &result.unreadable) {
        (200..=299, None) => match result.whole.defect() {
            None => Judgement::Answered,
            Some(why) => {
                let status = result.status.unwrap_or_default();
                let brief = format!("{status} {}", first_words(&why));
                Judgement::Retry(Trouble {
                    brief,
                    retry_after: result.retry_after,
                    ..Trouble::new(TroubleKind::Empty, why)
                })
            }
        },
        (200..=299, Some((why, _))) => {
            let body = String::from_utf8_lossy(&result.raw);
            recognised(&body, endpoint).unwrap_or_else(|| {
                Judgement::Retry(
                    malformed(why, &result.raw, result.status).retry_after(result.retry_after),
                )
            })
        }
        (status, _) => refused(status, &result.raw, result.retry_after, endpoint),
    }
}

/// Classifies an error with status 200 that would be a rejection under its proper status.
fn recognised(body: &str, endpoint: &Endpoint) -> Option<Judgement> {
    let subject = rejections::subject(200, body);
    let judged = match subject {
        Subject::ContextOverflow
        | Subject::ContentFilter
        | Subject::UnkeptItem
        | Subject::Tools => Judgement::Rejected { status: 400, body: endpoint.redact_text(body) },
        Subject::Billing => unusable(endpoint, quoted(&endpoint.redact_text(body)), 402),
        Subject::Key => unusable(endpoint, quoted(&endpoint.redact_text(body)), 401),
        Subject::RateLimit | Subject::Proxy | Subject::UnknownModel | Subject::Unknown => {
            return None;
        }
    };
    Some(judged)
}

/// Classifies an error status. The text takes precedence over the status, because rate limits,
/// empty accounts and filters use many of them.
fn refused(
    status: u16,
    body: &[u8],
    retry_after: Option<Duration>,
    endpoint: &Endpoint,
) -> Judgement {
    let body = endpoint.redact_text(&String::from_utf8_lossy(body));
    let shown = if body.trim_start().starts_with('<') { said(&body) } else { body.clone() };
    let message = format!("status {status}: {}", quoted(&shown));
    let again = |message: String| {
        let brief = format!("{status} {}", first_words(&said(&body)));
        Judgement::Retry(Trouble {
            brief,
            retry_after,
            ..Trouble::new(TroubleKind::Endpoint, message)
        })
    };
    let subject = rejections::subject(status, &body);
    match (status, subject) {
        (_, Subject::Billing) => unusable(endpoint, message, 402),
        (400, Subject::Key) => unusable(endpoint, message, 401),
        // 498: Groq's flex tier is full. 499: Google canceled the request.
        (_, Subject::RateLimit) | (408 | 409 | 425 | 429 | 498 | 499 | 500..=599, _) => {
            again(message)
        }
        (_, Subject::ContextOverflow | Subject::ContentFilter | Subject::UnkeptItem) => {
            Judgement::Rejected { status, body }
        }
        // A router returns this for a model without tool support.
        (404 | 405, Subject::Tools) => Judgement::Rejected { status, body },
        (401..=405 | 300..=399, _) => unusable(endpoint, message, status),
        _ => Judgement::Rejected { status, body },
    }
}

/// Describes a success status without a valid response.
fn malformed(why: &str, body: &[u8], status: Option<u16>) -> Trouble {
    let status = status.map_or_else(String::new, |status| format!("{status} "));
    if is_foreign(body) {
        let body = String::from_utf8_lossy(body);
        let what = format!("not a model response: {}", quoted(&said(&body)));
        let brief = format!("{status}{}", first_words(&what));
        return Trouble { brief, ..Trouble::new(TroubleKind::Foreign, what) };
    }
    let why = format!("malformed response: {why}");
    let brief = format!("{status}{}", first_words(&why));
    Trouble { brief, ..Trouble::new(TroubleKind::Endpoint, why) }
}

/// Whether the body does not come from a model API: a page, plain text, or an object without any
/// API's fields.
fn is_foreign(body: &[u8]) -> bool {
    const KNOWN: [&str; 9] = [
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
            .is_ok_and(|body| KNOWN.iter().all(|field| body.get(field).is_none())),
        Some(b'[') => false,
        Some(_) => {
            let head = body.trim_ascii_start();
            !sse::FIELDS.iter().any(|field| head.starts_with(field))
        }
    }
}

fn unusable(endpoint: &Endpoint, message: String, status: u16) -> Judgement {
    let fault = Fault::new(Layer::Model, format!("{}: {message}", endpoint.base()));
    Judgement::Unusable(fault.hint(endpoint.hint(status)).cause(Cause::Refused))
}
