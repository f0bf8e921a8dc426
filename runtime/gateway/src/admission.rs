//! A request's right to leave, and what is charged for it.

use std::{sync::Arc, time::Duration};

use proctor_types::{RequestClass, Usage};

use crate::{
    limiter::Slot,
    meter::Meter,
    scope::Hold,
    shared::{self, Reservation},
};

/// What a request asks to hold before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserve {
    pub class: RequestClass,
    /// Tokens, and not less than the endpoint will count: see [`crate::tokens::ceiling`]. An
    /// estimate that is too small lets requests in flight pass a limit together.
    pub input_estimate: u64,
    /// The output limit that the request names, in tokens. Absent: it runs alone where a limit of
    /// the trial depends on output.
    pub max_output: Option<u64>,
}

/// What a request holds of limits until it is settled.
#[derive(Debug)]
pub(crate) struct Held {
    pub holds: Vec<Hold>,
    /// Beside the holds, where other processes share a limit.
    pub reservations: Vec<Box<dyn Reservation>>,
    pub slots: Vec<Slot>,
}

/// A request in flight. Dropping it lets go of what is held, without a charge.
#[derive(Debug)]
#[must_use = "a dropped admission lets the next request in"]
pub struct Admission {
    held: Held,
    meter: Arc<Meter>,
    class: RequestClass,
    grace: bool,
    /// In all, and of that for limits that trials share.
    queued: (Duration, Duration),
}

impl Admission {
    pub(crate) fn new(
        meter: Arc<Meter>,
        held: Held,
        class: RequestClass,
        grace: bool,
        queued: (Duration, Duration),
    ) -> Self {
        meter.clock.took_off();
        Self { held, meter, class, grace, queued }
    }

    /// The wait for limits that trials share and for the endpoint's rate limits: no working time.
    pub fn queued(&self) -> Duration {
        self.queued.0
    }

    /// Of [`Self::queued`], that for limits that trials share.
    pub fn queued_for_shared(&self) -> Duration {
        self.queued.1
    }

    /// Charges what the endpoint billed. `delivered`: the answer went to the scaffold, so a main
    /// request was a step. Answers that cannot be parsed or were cut are charged with `false`.
    ///
    /// Settling hands out the step: the number of the answer, where it was one.
    pub fn settle(mut self, usage: &Usage, cost_usd: Option<f64>, delivered: bool) -> Option<u64> {
        if self.grace {
            self.meter.grace(usage, cost_usd, delivered);
        }
        let mut step = None;
        for (place, hold) in self.held.holds.drain(..).enumerate() {
            let counted = hold.settle(usage, cost_usd, delivered);
            // The trial's own limits are held first.
            if place == 0 && !self.grace {
                step = counted;
            }
        }
        for reservation in self.held.reservations.drain(..) {
            reservation.settle(shared::used(self.class, usage, cost_usd, delivered));
        }
        for slot in self.held.slots.drain(..) {
            slot.answered(usage.input.saturating_add(usage.output));
        }
        step
    }

    /// The endpoint turned the request away because it has too many (429, 529), and names a pause
    /// or not. Nothing is charged; all trials at the endpoint are held back.
    pub fn throttled(mut self, retry_after: Option<Duration>) {
        for slot in self.held.slots.drain(..) {
            slot.throttled(retry_after);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.meter.clock.landed();
    }
}
