//! The gate that lets one request at a time through to a model that has not responded yet.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::attempt_failure::FailureKind;

/// Holds a semaphore with one permit until the model has responded. Closing the semaphore then lets
/// every request through.
#[derive(Debug, Clone)]
pub(crate) struct FirstResponseGate {
    pub(crate) turns: Arc<Semaphore>,
    round: Arc<Mutex<AttemptRound>>,
}

impl Default for FirstResponseGate {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(1)), round: Arc::default() }
    }
}

impl FirstResponseGate {
    /// Lets all requests through from now on.
    pub(crate) fn open(&self) {
        self.turns.close();
    }
}

/// Failed attempts and the waits after them, either of one request or of all requests that took
/// turns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttemptRound {
    pub failed: u32,
    pub silent: u32,
    pub waited: Duration,
}

impl AttemptRound {
    pub(crate) fn add_failure(&mut self, kind: FailureKind) -> Self {
        self.failed += 1;
        self.silent += u32::from(kind == FailureKind::Silent);
        *self
    }
}

/// The right to call a model that has not responded yet. Dropping it passes the right to the next
/// request.
#[derive(Debug)]
pub(crate) struct CallPermit {
    first: FirstResponseGate,
    _permit: OwnedSemaphorePermit,
}

impl CallPermit {
    pub(crate) fn new(first: FirstResponseGate, permit: OwnedSemaphorePermit) -> Self {
        Self { first, _permit: permit }
    }

    /// Notes that the model has started to respond.
    pub(crate) fn note_response(&self) {
        self.first.open();
    }

    /// Adds to the series of failed attempts and returns the new totals.
    pub(crate) fn update_round(
        &self,
        change: impl FnOnce(&mut AttemptRound) -> AttemptRound,
    ) -> AttemptRound {
        change(&mut self.first.round.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
