//! The interface for recording requests.

use std::time::Duration;

use async_trait::async_trait;
use proctor_types::{Event, Fault};

/// Waits shorter than this are not reported.
pub(crate) const FIRST_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// A wait in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitNotice {
    /// The request has waited this long for the endpoint's rate limits or a shared limit. Reported
    /// after one second and then once a minute.
    Queued(Duration),
    /// The endpoint has sent nothing for `elapsed`. Reported after `notice_seconds` and then at
    /// doubling intervals.
    Silent {
        /// The model's name at the endpoint.
        model: String,
        elapsed: Duration,
    },
    /// The request waits until another one gets the model's first response in this run. Reported
    /// after one second and then at doubling intervals.
    FirstResponse {
        /// The model's name at the endpoint.
        model: String,
        elapsed: Duration,
    },
    /// An attempt failed, and the next one follows after `pause`. Reported if `pause` is at least
    /// one second.
    BackOff {
        /// The failed attempt, counted from 1.
        attempt: u32,
        /// Maximum number of attempts.
        max_attempts: u32,
        /// The status and the first words of the response, or the error.
        reason: String,
        pause: Duration,
    },
}

/// Receives what the gateway records about a trial's requests: bodies, and events that refer to
/// them by hash. A result must be recorded, so an error from either method ends the request.
#[async_trait]
pub trait ExchangeSink: Send + Sync {
    /// Stores the exact bytes of a request or a response and returns the hash that events use.
    async fn store_body(&self, bytes: &[u8]) -> Result<String, Fault>;

    /// Appends an event under its step. One request yields, in this order: every `model_attempted`,
    /// including failed ones; `request_served` for a client of the HTTP server; and
    /// `model_answered` for a step, which is recorded before the end of its response is delivered.
    async fn record_event(&self, step: u64, event: Event) -> Result<(), Fault>;

    /// Called when a main request arrives. The previous step is then over, and its file tree must
    /// be saved before the request is sent.
    async fn on_step_end(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Reports a waiting request to the user, because a minute without output looks like a hang.
    /// Nothing depends on this call. The record contains each wait, together with the attempt that
    /// follows it.
    fn report_wait(&self, notice: WaitNotice) {
        let _ = notice;
    }
}
