//! How an attempt failed.

use std::time::Duration;

use crate::error_text::first_words;

/// Why an attempt failed.
#[derive(Debug, Clone)]
pub(crate) struct AttemptFailure {
    pub kind: FailureKind,
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
pub(crate) enum FailureKind {
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

impl AttemptFailure {
    pub(crate) fn new(kind: FailureKind, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { kind, brief: first_words(&why), why, retry_after: None, hint: None }
    }

    /// Describes a damaged response, with a hint on how to prevent the damage.
    pub(crate) fn damaged(why: impl Into<String>, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..Self::new(FailureKind::Damaged, why) }
    }

    pub(crate) fn retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}
