//! Until a model has responded in this run, only one request at a time is sent to it, and the
//! others wait.
//!
//! A single round of attempts then detects an endpoint that is down or silent, instead of each
//! trial in flight detecting it for itself. If other trials wait, each attempt is made by a
//! different trial, so a single request that the endpoint cannot handle does not condemn the model.
//! The cost: without a preflight, trials that start together wait for the first event of one
//! response. Rejected alternative: let each request make one attempt and only one retry. Hundreds
//! of requests would then hang at an endpoint that never responds.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    RequestError, TrialGateway, clock::WaitKind, judge::FailureKind, meter::FIRST_NOTICE,
    sink::WaitNotice,
};

/// Has one permit until the model has responded, and is closed from then on.
#[derive(Debug, Clone)]
pub(crate) struct FirstResponseGate {
    turns: Arc<Semaphore>,
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

/// Failed attempts and the waits after them, of one request or of all requests that took turns.
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
    /// Notes that the model has started to respond.
    pub(crate) fn note_response(&self) {
        self.first.open();
    }

    /// Updates the state of the round and returns the new totals.
    pub(crate) fn update_round(
        &self,
        change: impl FnOnce(&mut AttemptRound) -> AttemptRound,
    ) -> AttemptRound {
        change(&mut self.first.round.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TrialGateway {
    /// Resolves once the request may be sent: the model has responded, or no other request is
    /// calling it. The wait is charged to the endpoint, not to working time.
    pub(crate) async fn acquire_call_permit(&self) -> Result<Option<CallPermit>, RequestError> {
        let first = self.route().halts.first_response_gate(&self.route().model);
        let semaphore = Arc::clone(&first.turns);
        match semaphore.clone().try_acquire_owned() {
            Ok(permit) => return Ok(Some(CallPermit { first, _permit: permit })),
            Err(_) if semaphore.is_closed() => return Ok(None),
            Err(_) => {}
        }
        let begun = Instant::now();
        let _waiting = self.meter().clock.start_wait();
        let _kind = self.meter().clock.start_wait_timer(WaitKind::RateLimits);
        let _lost = self
            .lost_time()
            .start_wait_for("the model has not responded to any request of this run yet");
        let model = || self.route().model.name.clone();
        let acquired = semaphore.acquire_owned();
        tokio::pin!(acquired);
        let mut so_far = FIRST_NOTICE;
        loop {
            tokio::select! {
                permit = &mut acquired => {
                    return Ok(permit.ok().map(|permit| CallPermit { first, _permit: permit }));
                }
                cut = self.wait_for_cancel(false) => return Err(cut.error()),
                () = tokio::time::sleep_until(begun + so_far) => {
                    self.sink().report_wait(WaitNotice::FirstAnswer { model: model(), so_far });
                    so_far = so_far.saturating_mul(2);
                }
            }
        }
    }
}
