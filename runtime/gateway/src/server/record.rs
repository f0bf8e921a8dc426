//! What the record keeps of a request of the HTTP server.

use bytes::Bytes;
use proctor_types::{Answer, Api, Loss, RequestClass, Usage};

/// One request of a client, answered or refused. Bodies are the client's own side; what went to the
/// endpoint and came from it is in the [`crate::Attempt`]s before it. Neither holds a header.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Within the trial, counted from 1.
    pub number: u64,
    pub client: Api,
    pub upstream: Api,
    /// Without the query, which may hold the token.
    pub path: String,
    pub class: RequestClass,
    pub streamed: bool,
    /// Of the response. 200 for a stream that broke off: see `error`.
    pub status: u16,
    /// Why there is no answer, or no whole one.
    pub error: Option<String>,
    pub request: Bytes,
    pub response: Bytes,
    pub losses: Vec<Loss>,
    /// The whole answer, with its usage and cost.
    pub answer: Option<Answer>,
    /// The client took it. A delivered answer of the main conversation is a step.
    pub delivered: bool,
    /// What was charged, for a broken answer too.
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    pub seconds: f64,
    /// To the first piece of a stream.
    pub first_byte_seconds: Option<f64>,
}
