//! The outcome of one attempt: the response so far, and why it is not complete.

use std::time::Duration;

use bytes::BytesMut;
use proctor_types::{Usage, format_error_chain};
use serde::de::IgnoredAny;

use crate::{
    attempt_failure::{AttemptFailure, FailureKind},
    codec::neutral::CollectedResponse,
    responder::{ResponseNames, read_names},
    stop_report::StopReport,
    trial::CancelReason,
};

/// Maximum response size, in bytes. The rest is not read.
pub(super) const BODY_LIMIT: usize = 64 << 20;

/// The outcome of one attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptResult {
    /// The HTTP status, or `None` if there was no response.
    pub status: Option<u16>,
    /// The wait that the endpoint requests.
    pub retry_after: Option<Duration>,
    /// The response as received so far, with the key redacted where it arrived in one piece.
    pub raw: BytesMut,
    /// The response parsed so far.
    pub response: CollectedResponse,
    /// The names in a successful response.
    pub names: ResponseNames,
    /// What a successful response reports about its end.
    pub stop: StopReport,
    /// Whether fragments of the stream were lost or arrived in the wrong order, although its last
    /// events contain the whole response.
    pub has_damaged_fragments: bool,
    /// Why the body is not a response, and the usage billed for the body.
    pub parse_failure: Option<(String, Option<Usage>)>,
    pub end: Option<AttemptEnd>,
    /// Whether the key is split across several events of the response. If so, the response's bytes
    /// must not be recorded.
    pub has_split_key: bool,
    pub duration: Duration,
    /// Part of `duration` in the endpoint's queue: only comments arrived before the first event, or
    /// the endpoint states the time.
    pub queue_time: Duration,
    /// The time in the queue that the response's headers state.
    pub stated_queue_time: Duration,
    pub first_byte_time: Option<Duration>,
    /// When the first content of the response arrived.
    pub first_content_time: Option<Duration>,
}

/// Why an attempt has no complete response.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    Broken(BrokenResponse),
    Cancelled(CancelReason),
}

#[derive(Debug, Clone)]
pub(crate) struct BrokenResponse {
    pub kind: FailureKind,
    pub problem: String,
    /// The endpoint's own explanation, if the stream has one.
    pub reported_error: Option<String>,
}

impl BrokenResponse {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self { kind: FailureKind::Endpoint, problem: problem.into(), reported_error: None }
    }

    /// Describes an error that the endpoint reported in an event.
    pub(super) fn from_reported_error(reason: String, data: &str) -> Self {
        Self { reported_error: Some(data.to_owned()), ..Self::new(reason) }
    }

    /// Describes an endpoint that sent nothing for `duration`.
    pub(super) fn from_silence(duration: Duration) -> Self {
        let problem = format!("no event for {:.0} s", duration.as_secs_f64());
        Self { kind: FailureKind::Silent, problem, reported_error: None }
    }

    pub(super) fn from_reqwest(error: reqwest::Error) -> Self {
        // A connection that is neither accepted nor refused times out.
        let unreachable = error.is_connect() || error.is_timeout();
        let kind = if unreachable { FailureKind::Unreachable } else { FailureKind::Endpoint };
        let problem = format_error_chain(&error.without_url());
        Self { kind, problem, reported_error: None }
    }

    /// Converts to the failure of the attempt. `status` is the HTTP status, if a response head
    /// arrived.
    pub(crate) fn to_failure(
        &self,
        status: Option<u16>,
        retry_after: Option<Duration>,
    ) -> AttemptFailure {
        let why = match status {
            Some(status) => format!("status {status}, then {}", self.problem),
            None => self.problem.clone(),
        };
        AttemptFailure::new(self.kind, why).with_retry_after(retry_after)
    }
}

impl AttemptResult {
    /// Reads the names and the stop reason from the bytes of a response that has ended.
    pub(super) fn read_names_and_stop(&mut self) {
        self.names = read_names(&self.raw, &self.response.model);
        self.stop = StopReport::read(&self.raw);
    }

    /// Whether part of a response arrived, so that tokens were generated.
    pub(crate) fn has_output(&self) -> bool {
        !self.response.items.is_empty() || self.response.usage.is_some()
    }

    /// Whether a stream ended early without giving a reason.
    pub(crate) fn is_cut_off(&self) -> bool {
        let is_unexplained = match &self.end {
            Some(AttemptEnd::Broken(broken)) => {
                broken.kind == FailureKind::Endpoint && broken.reported_error.is_none()
            }
            Some(AttemptEnd::Cancelled(_)) => false,
            // A complete JSON document was not cut off.
            None => {
                self.parse_failure.is_some()
                    && serde_json::from_slice::<IgnoredAny>(&self.raw).is_err()
            }
        };
        self.is_success() && is_unexplained
    }

    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}
