//! A request's right to leave, and what is charged for it.

use std::sync::Arc;

use proctor_types::{RequestClass, Usage};

use crate::{meter::Meter, scope::Hold};

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

/// A request in flight. Dropping it lets go of what is held, without a charge.
#[derive(Debug)]
#[must_use = "a dropped admission lets the next request in"]
pub struct Admission {
    holds: Vec<Hold>,
    meter: Arc<Meter>,
}

impl Admission {
    pub(crate) fn new(meter: Arc<Meter>, holds: Vec<Hold>) -> Self {
        meter.took_off();
        Self { holds, meter }
    }

    /// Charges what the endpoint billed. `delivered`: the answer went to the scaffold, so a main
    /// request was a step. Answers that cannot be parsed or were cut are charged with `false`.
    pub fn settle(mut self, usage: &Usage, cost_usd: Option<f64>, delivered: bool) {
        for hold in self.holds.drain(..) {
            hold.settle(usage, cost_usd, delivered);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.meter.landed();
    }
}
