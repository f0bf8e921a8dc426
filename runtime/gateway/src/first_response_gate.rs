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
    pub(crate) permits: Arc<Semaphore>,
    shared_attempts: Arc<Mutex<AttemptRound>>,
}

impl Default for FirstResponseGate {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(1)), shared_attempts: Arc::default() }
    }
}

impl FirstResponseGate {
    /// Lets all requests through from now on.
    pub(crate) fn open(&self) {
        self.permits.close();
    }
}

/// Failed attempts and the waits after them, either of one request or of all requests that took
/// turns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttemptRound {
    pub failed_attempts: u32,
    pub silent_attempts: u32,
    pub wait_time: Duration,
}

impl AttemptRound {
    pub(crate) fn add_failure(&mut self, kind: FailureKind) -> Self {
        self.failed_attempts += 1;
        self.silent_attempts += u32::from(kind == FailureKind::Silent);
        *self
    }
}

/// The right to call a model that has not responded yet. Dropping it passes the right to the next
/// request.
#[derive(Debug)]
pub(crate) struct CallPermit {
    gate: FirstResponseGate,
    _permit: OwnedSemaphorePermit,
}

impl CallPermit {
    pub(crate) fn new(gate: FirstResponseGate, permit: OwnedSemaphorePermit) -> Self {
        Self { gate, _permit: permit }
    }

    /// Notes that the model has started to respond.
    pub(crate) fn note_response(&self) {
        self.gate.open();
    }

    /// Adds to the series of failed attempts and returns the new totals.
    pub(crate) fn update_round(
        &self,
        change: impl FnOnce(&mut AttemptRound) -> AttemptRound,
    ) -> AttemptRound {
        change(&mut self.gate.shared_attempts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
