//! Admits requests: reserves budget before each request and charges the response afterwards.

use std::{convert::Infallible, sync::Arc, time::Duration};

use proctor_types::{RequestClass, Usage};
use tokio::time::Instant;

use crate::{
    RequestError, SharedMeter,
    clock::WaitKind,
    limiter::{Limiter, Slot},
    meter::Meter,
    scope::{MaxUsage, ScopeReservation},
    shared::{self, Reservation},
    sink::FIRST_NOTICE,
};

/// Interval between progress reports of a long wait.
const NEXT_NOTICE: Duration = Duration::from_secs(60);

/// The amounts that a request reserves before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBounds {
    pub class: RequestClass,
    /// An upper bound on the input tokens that the endpoint will count, see
    /// [`crate::tokens::max_input_tokens`]. A lower estimate would let concurrent requests exceed a
    /// limit together.
    pub input_estimate: u64,
    /// The request's output limit, in tokens. If it is `None` and one of the trial's limits depends
    /// on output, the request runs alone.
    pub max_output: Option<u64>,
}

/// The amounts that a request asks the meter to reserve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionRequest {
    pub need: MaxUsage,
    /// The amounts to reserve in scopes that trials share.
    pub shared: MaxUsage,
    /// The request is the last one, sent after the trial reached a limit. The trial's own limits on
    /// counts do not apply to it.
    pub grace: bool,
}

/// All reservations of a request. They last until the request is settled.
#[derive(Debug)]
struct HeldResources {
    holds: Vec<ScopeReservation>,
    /// Reservations of limits that other processes share.
    reservations: Vec<Box<dyn Reservation>>,
    slots: Vec<Slot>,
}

/// A request in flight. Dropping it releases the reservation without a charge.
#[derive(Debug)]
#[must_use = "a dropped admission lets the next request in"]
pub struct Admission {
    held: HeldResources,
    meter: Arc<Meter>,
    class: RequestClass,
    grace: bool,
    /// Total wait, and the part of it spent waiting for limits that trials share.
    queued: (Duration, Duration),
}

impl Admission {
    fn new(
        meter: Arc<Meter>,
        held: HeldResources,
        class: RequestClass,
        grace: bool,
        queued: (Duration, Duration),
    ) -> Self {
        meter.clock.request_started();
        Self { held, meter, class, grace, queued }
    }

    /// Time spent waiting for limits that trials share and for the endpoint's rate limits. It does
    /// not count as working time.
    pub fn queue_time(&self) -> Duration {
        self.queued.0
    }

    /// Part of the queueing time that was spent waiting for limits that trials share.
    pub fn shared_queue_time(&self) -> Duration {
        self.queued.1
    }

    /// Charges what the endpoint billed. Set `delivered` if the scaffold received the response: a
    /// delivered response of the main conversation is a step. Pass `false` for responses that were
    /// cut off or cannot be parsed.
    ///
    /// Returns the step number if the response was a step.
    pub fn settle(mut self, usage: &Usage, cost_usd: Option<f64>, delivered: bool) -> Option<u64> {
        if self.grace {
            self.meter.add_grace(usage, cost_usd, delivered);
        }
        let mut step = None;
        for (place, hold) in self.held.holds.drain(..).enumerate() {
            let counted = hold.settle(usage, cost_usd, delivered);
            // The first hold is on the trial's own scope, which numbers its steps.
            if place == 0 && !self.grace {
                step = counted;
            }
        }
        for reservation in self.held.reservations.drain(..) {
            reservation.settle(shared::used_amounts(self.class, usage, cost_usd, delivered));
        }
        for slot in self.held.slots.drain(..) {
            slot.finish_answered(usage.input.saturating_add(usage.output));
        }
        step
    }

    /// The endpoint rejected the request because of a rate limit (429, 529), optionally with a
    /// requested pause. Nothing is charged, and all trials at the endpoint slow down.
    pub fn finish_throttled(mut self, retry_after: Option<Duration>) {
        for slot in self.held.slots.drain(..) {
            slot.finish_throttled(retry_after);
        }
    }
}

impl Meter {
    /// Reserves in every scope and then at the endpoint, one after another. Calls `notice` with the
    /// length of a wait that the trial did not cause.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        wanted: AdmissionRequest,
        limiters: &[Arc<Limiter>],
        notice: &(dyn Fn(Duration) + Sync),
    ) -> Result<Admission, RequestError> {
        let mut holds: Vec<ScopeReservation> = Vec::with_capacity(1 + self.shared.len());
        let mut reservations = Vec::new();
        if !wanted.grace {
            holds
                .push(self.own.reserve(wanted.need.clamped()).await.map_err(RequestError::Budget)?);
        }
        let (begun, waiting) = (Instant::now(), self.clock.start_wait());
        let entering = async {
            let permit = self.clock.start_wait_timer(WaitKind::SharedLimits);
            for SharedMeter { scope, limit } in &self.shared {
                let (need, of) = (wanted.shared.clamped(), scope.scope);
                let held = scope.reserve(need).await;
                holds.push(held.map_err(|kind| RequestError::SharedBudget { scope: of, kind })?);
                if let Some(limit) = limit {
                    let alone = scope.is_unbounded(&need) || scope.spent().outgrown;
                    let taken = limit.reserve(&shared::needed_amounts(&need), alone).await;
                    reservations.push(taken.map_err(|refused| refused.into_budget_error(of))?);
                }
            }
            let of_shared = permit.so_far();
            drop(permit);
            let _place = self.clock.start_wait_timer(WaitKind::RateLimits);
            let need = wanted.need.clamped();
            let mut slots = Vec::with_capacity(limiters.len());
            for limiter in limiters {
                let tokens = need.input + need.output.unwrap_or_default();
                let mut slot = limiter.acquire_slot(tokens).await;
                slot.acquire_shared(tokens).await.map_err(RequestError::Fault)?;
                slots.push(slot);
            }
            Ok::<_, RequestError>((slots, of_shared))
        };
        let (slots, of_shared) = tokio::select! {
            biased;
            entered = entering => entered?,
            never = report_wait(begun, notice) => match never {},
        };
        drop(waiting);
        match self.reached_time_limit() {
            Some(kind) => Err(RequestError::Budget(kind)),
            None => {
                let (meter, queued) = (Arc::clone(self), (begun.elapsed(), of_shared));
                let held = HeldResources { holds, reservations, slots };
                Ok(Admission::new(meter, held, wanted.need.class, wanted.grace, queued))
            }
        }
    }
}

/// Reports a wait after one second and then once a minute, until it is dropped.
async fn report_wait(begun: Instant, notice: &(dyn Fn(Duration) + Sync)) -> Infallible {
    tokio::time::sleep(FIRST_NOTICE).await;
    loop {
        notice(begun.elapsed());
        tokio::time::sleep(NEXT_NOTICE).await;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.meter.clock.request_ended();
    }
}
