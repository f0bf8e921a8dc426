//! Where requests are recorded.

use std::time::Duration;

use async_trait::async_trait;
use proctor_types::{Event, Fault};

/// A wait that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// For the endpoint's rate limits or a limit that trials share, for so long by now. Told after a
    /// second, and then once a minute.
    Queued(Duration),
    /// A request was sent, and no byte of an answer has come for so long by now. Told after a while
    /// (`notice_seconds`), and then at distances that double.
    Silent {
        /// The model's name at its endpoint.
        model: String,
        so_far: Duration,
    },
    /// The model has not answered in this run yet, and another request asks it, for so long by now. Told
    /// after a second, and then at distances that double.
    FirstAnswer {
        /// The model's name at its endpoint.
        model: String,
        so_far: Duration,
    },
    /// An attempt failed: the next one is so far away. Told for a second and more.
    BackOff {
        /// The one that failed, counted from 1.
        attempt: u32,
        /// How many there are at most.
        attempts: u32,
        /// The status and the first words of the response, or what broke.
        why: String,
        pause: Duration,
    },
}

/// Takes what the gateway records of a trial's requests: bodies by their hash, and events that name
/// them. No record, no result: an error of either ends the request.
#[async_trait]
pub trait ExchangeSink: Send + Sync {
    /// Keeps the exact bytes of a request or a response and returns the hash that events name them by.
    async fn body(&self, bytes: &[u8]) -> Result<String, Fault>;

    /// Appends an event under the step that it belongs to. Of one request come, in this order: every
    /// `model_attempted`, failed ones included; `request_served` for a client of the HTTP server; and
    /// `model_answered` for a step, which is recorded before the end of its answer is delivered.
    async fn event(&self, step: u64, event: Event) -> Result<(), Fault>;

    /// A request of the main conversation has come: the step before it is over, and its tree is to be
    /// kept before this request is sent.
    async fn step_ends(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Reported to the user while a request waits: a minute without a sign looks like a hang.
    /// Nothing depends on it; the record has each wait with the attempt that follows.
    fn waiting(&self, waiting: Waiting) {
        let _ = waiting;
    }
}
