//! What one go means: an answer, another go, or the end.

use std::time::Duration;

use proctor_types::{Answer, Fault, Layer, Usage};
use serde_json::Value;

use crate::{answer, endpoint::Endpoint, exchange::Exchanged};

/// Characters of a body that are quoted to the operator.
const QUOTED: usize = 400;

#[derive(Debug)]
pub(crate) enum Judgement {
    Answered(Box<Answer>),
    /// Worth another go.
    Again {
        why: String,
        wish: Option<Duration>,
        /// No connection was made.
        connecting: bool,
        /// Billed for nothing.
        billed: Option<Usage>,
    },
    /// The request itself is refused.
    Rejected {
        status: u16,
        body: String,
    },
    /// The endpoint is not usable as configured.
    Unusable(Fault),
}

impl Judgement {
    /// The endpoint has too many requests: a lesson for all that go to it. An empty account says 429
    /// too, and teaches nothing.
    pub(crate) fn is_throttled(&self, status: Option<u16>) -> bool {
        matches!((self, status), (Self::Again { .. }, Some(429 | 529)))
    }
}

/// Judges by the status and the bytes that our own service saw.
pub(crate) fn judge(seen: &Exchanged, endpoint: &Endpoint, step: u64) -> Judgement {
    let again =
        |why: String| Judgement::Again { why, wish: seen.wish, connecting: false, billed: None };
    if let Some(broken) = &seen.broken {
        let why = match seen.status {
            Some(status) => format!("status {status}, then {}", broken.what),
            None => broken.what.clone(),
        };
        let connecting = broken.connecting;
        return Judgement::Again { why, wish: seen.wish, connecting, billed: None };
    }
    let Some(status) = seen.status else {
        return again("no response".into());
    };
    let body = endpoint.redact_text(&String::from_utf8_lossy(&seen.response));
    let told = format!("status {status}: {}", quoted(&body));
    match status {
        200..=299 => answered(seen, step),
        429 if is_out_of_quota(&body) => unusable(endpoint, told, status),
        408 | 409 | 425 | 429 | 500..=599 => again(told),
        401..=405 | 300..=399 => unusable(endpoint, told, status),
        _ => Judgement::Rejected { status, body },
    }
}

fn answered(seen: &Exchanged, step: u64) -> Judgement {
    let parsed = match &seen.body {
        Some(Ok(body)) => answer::parse(body, step).map_err(|why| (why, answer::usage(body))),
        Some(Err(why)) => Err((format!("not JSON: {why}"), None)),
        None => Err(("no body".into(), None)),
    };
    match parsed {
        Ok(answer) => Judgement::Answered(Box::new(answer)),
        Err((why, billed)) => Judgement::Again {
            why: format!("malformed answer: {why}"),
            wish: seen.wish,
            connecting: false,
            billed,
        },
    }
}

/// OpenAI says 429 for an empty account too, and no wait repairs that.
fn is_out_of_quota(body: &str) -> bool {
    let code = serde_json::from_str::<Value>(body).unwrap_or_default()["error"]["code"].clone();
    matches!(code.as_str(), Some("insufficient_quota" | "billing_hard_limit_reached"))
}

fn unusable(endpoint: &Endpoint, told: String, status: u16) -> Judgement {
    let fault = Fault::new(Layer::Model, format!("{}: {told}", endpoint.base()));
    Judgement::Unusable(fault.hint(endpoint.hint(status)).lasting())
}

fn quoted(body: &str) -> String {
    let body = body.trim();
    match body.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}...", &body[..end]),
        None if body.is_empty() => "(no body)".into(),
        None => body.to_owned(),
    }
}
