//! How an attempt failed.

use std::time::Duration;

use crate::error_text::first_words;

/// Why an attempt failed.
#[derive(Debug, Clone)]
pub(crate) struct AttemptFailure {
    pub kind: FailureKind,
    /// The full reason, for the record.
    pub reason: String,
    /// A short reason for the user: the status and the first words of the error.
    pub short_reason: String,
    /// How long the endpoint asks the client to wait before the next request.
    pub retry_after: Option<Duration>,
    /// How to fix the cause of the failure, if known.
    pub hint: Option<String>,
    /// Whether the trial must start again instead of being resumed. True if the endpoint dropped a
    /// part of the prompt. It may also have dropped smaller parts of earlier prompts, which the
    /// checks can't detect. A resumed trial would keep the model's responses to these prompts.
    pub restarts_trial: bool,
}

/// Kinds of failure. Each kind has its own retry limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The connection failed.
    Unreachable,
    /// The status reports success, but the body is not a model response, for example because it is
    /// a web page. Usually the URL is wrong. Also a proxy's web page with an error status that says
    /// nothing about the endpoint.
    NotAModelApi,
    /// No event arrived within the time that the policy allows.
    Silent,
    /// The status reports success, but the response contains no model output.
    Empty,
    /// The provider's content filter stopped the response.
    Filtered,
    /// The server corrupted or misparsed the response. The gateway requests it again without
    /// streaming.
    Corrupted,
    /// The response ended at the server's default output limit. The gateway requests it again with
    /// an explicit limit.
    OutputCapped,
    /// The endpoint is overloaded, applied a rate limit, or cut off the response.
    Endpoint,
}

impl AttemptFailure {
    pub(crate) fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            kind,
            short_reason: first_words(&reason),
            reason,
            retry_after: None,
            hint: None,
            restarts_trial: false,
        }
    }

    /// Describes a corrupted response, with a hint on how to prevent the corruption.
    pub(crate) fn corrupted_response(reason: impl Into<String>, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..Self::new(FailureKind::Corrupted, reason) }
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}
