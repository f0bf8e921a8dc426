//! Reservations of admitted requests, and the charge for each response.

use std::{sync::Arc, time::Duration};

use proctor_types::{RequestClass, Usage};

use crate::{
    limiter::Slot,
    meter::Meter,
    scope::ScopeReservation,
    shared::{self, Reservation},
};

/// The amounts that a request reserves before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBounds {
    pub class: RequestClass,
    /// An upper bound on the input tokens that the endpoint will count, see
    /// [`crate::tokens::max_input_tokens`]. With a lower estimate, requests in flight could exceed a limit
    /// together.
    pub input_estimate: u64,
    /// The request's output limit, in tokens. `None`: the request runs alone if one of the trial's
    /// limits depends on output.
    pub max_output: Option<u64>,
}

/// Everything that a request reserves until it is settled.
#[derive(Debug)]
pub(crate) struct HeldResources {
    pub holds: Vec<ScopeReservation>,
    /// Reservations of limits that other processes share.
    pub reservations: Vec<Box<dyn Reservation>>,
    pub slots: Vec<Slot>,
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
    pub(crate) fn new(
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

    /// Part of [`Self::queued`] spent waiting for limits that trials share.
    pub fn shared_queue_time(&self) -> Duration {
        self.queued.1
    }

    /// Charges what the endpoint billed. `delivered`: the scaffold received the response, so a main
    /// request was a step. Pass `false` for responses that were cut or cannot be parsed.
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

impl Drop for Admission {
    fn drop(&mut self) {
        self.meter.clock.request_ended();
    }
}
