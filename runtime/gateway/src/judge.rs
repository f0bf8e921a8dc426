//! What one attempt means: an answer, another attempt, or the end.

use std::time::Duration;

use proctor_types::{Cause, Fault, Layer};
use serde_json::Value;

use crate::{
    endpoint::Endpoint,
    halts::Asker,
    rejections::{Subject, Subjects},
    send::{Came, Ended},
    trial::Cut,
    words::{first_words, quoted, said},
};

#[derive(Debug)]
pub(crate) enum Judgement {
    Answered,
    /// Worth another attempt.
    Again(Trouble),
    /// The trial's own end.
    Cut(Cut),
    /// The request itself is refused.
    Rejected {
        status: u16,
        body: String,
    },
    /// The endpoint is not usable as configured.
    Unusable(Fault),
}

/// Why an attempt brought nothing.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub kind: TroubleKind,
    /// For the record.
    pub why: String,
    /// For the user: the status and the first words.
    pub brief: String,
    /// The wait that the endpoint asks for.
    pub wish: Option<Duration>,
}

/// Kinds that are given up after different numbers of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// No connection was made.
    Unreachable,
    /// A success that is no answer of a model, such as a web page: most often a wrong address.
    Foreign,
    /// No byte for as long as the policy allows.
    Silent,
    /// Overloaded, limited, broken off: the endpoint is one, and not well.
    Endpoint,
}

impl Trouble {
    pub(crate) fn new(kind: TroubleKind, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { kind, brief: first_words(&why), why, wish: None }
    }

    pub(crate) fn wish(mut self, wish: Option<Duration>) -> Self {
        self.wish = wish;
        self
    }
}

/// Judges by the status and the bytes.
pub(crate) fn judge(came: &Came, endpoint: &Endpoint, asker: &Asker<'_>) -> Judgement {
    match &came.ended {
        Some(Ended::Cut(cut)) => return Judgement::Cut(*cut),
        Some(Ended::Broken(broken)) => {
            return Judgement::Again(broken.after(came.status, came.wish));
        }
        None => {}
    }
    match (came.status.unwrap_or_default(), &came.unread) {
        (200..=299, None) => Judgement::Answered,
        (200..=299, Some((why, _))) => {
            Judgement::Again(malformed(why, &came.raw, came.status).wish(came.wish))
        }
        (status, _) => refused(status, &came.raw, came.wish, (endpoint, asker)),
    }
}

/// What a status that is no success means.
fn refused(
    status: u16,
    body: &[u8],
    wish: Option<Duration>,
    (endpoint, asker): (&Endpoint, &Asker<'_>),
) -> Judgement {
    let body = endpoint.redact_text(&String::from_utf8_lossy(body));
    let shown = if body.trim_start().starts_with('<') { said(&body) } else { body.clone() };
    let told = format!("status {status}: {}", quoted(&shown));
    match status {
        429 if is_out_of_quota(&body) => unusable(endpoint, told, status),
        408 | 409 | 425 | 429 | 500..=599 => {
            let brief = format!("{status} {}", first_words(&said(&body)));
            Judgement::Again(Trouble { kind: TroubleKind::Endpoint, why: told, brief, wish })
        }
        // A router says so of a model without tools.
        404 | 405 if asker.tools && speaks_of_tools(status, &body) => {
            Judgement::Rejected { status, body }
        }
        401..=405 | 300..=399 => unusable(endpoint, told, status),
        _ => Judgement::Rejected { status, body },
    }
}

/// A success without an answer.
fn malformed(why: &str, body: &[u8], status: Option<u16>) -> Trouble {
    let status = status.map_or_else(String::new, |status| format!("{status} "));
    if is_foreign(body) {
        let body = String::from_utf8_lossy(body);
        let what = format!("not an answer of a model: {}", quoted(&said(&body)));
        let brief = format!("{status}{}", first_words(&what));
        return Trouble { kind: TroubleKind::Foreign, why: what, brief, wish: None };
    }
    let why = format!("malformed answer: {why}");
    let brief = format!("{status}{}", first_words(&why));
    Trouble { kind: TroubleKind::Endpoint, why, brief, wish: None }
}

/// Whether what came is no API's: a page, a text, or an object of which no API knows a field.
fn is_foreign(body: &[u8]) -> bool {
    const KNOWN: [&str; 8] =
        ["choices", "error", "usage", "output", "content", "candidates", "usageMetadata", "id"];
    match body.trim_ascii_start().first() {
        None => false,
        Some(b'{') => serde_json::from_slice::<Value>(body)
            .is_ok_and(|body| KNOWN.iter().all(|field| body.get(field).is_none())),
        Some(b'[') => false,
        // The field names of a stream of events.
        Some(_) => {
            let head = body.trim_ascii_start();
            ![&b"data:"[..], b"event:", b"id:", b"retry:", b":"]
                .iter()
                .any(|field| head.starts_with(field))
        }
    }
}

/// OpenAI says 429 for an empty account too, and no wait repairs that.
fn is_out_of_quota(body: &str) -> bool {
    let code = serde_json::from_str::<Value>(body).unwrap_or_default()["error"]["code"].clone();
    matches!(code.as_str(), Some("insufficient_quota" | "billing_hard_limit_reached"))
}

fn speaks_of_tools(status: u16, body: &str) -> bool {
    Subjects::shipped().is_ok_and(|all| all.of(status, body, true, false) == Subject::Tools)
}

fn unusable(endpoint: &Endpoint, told: String, status: u16) -> Judgement {
    let fault = Fault::new(Layer::Model, format!("{}: {told}", endpoint.base()));
    Judgement::Unusable(fault.hint(endpoint.hint(status)).cause(Cause::Refused))
}
