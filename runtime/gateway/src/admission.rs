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
    sink::FIRST_NOTICE_DELAY,
};

/// Interval between progress reports about a long wait.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// The amounts that a request reserves before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestBounds {
    pub class: RequestClass,
    /// An upper bound on the input tokens that the endpoint will count, see
    /// [`crate::tokens::max_input_tokens`]. With a lower estimate, concurrent requests could
    /// together exceed a limit.
    pub input_estimate: u64,
    /// The request's output limit, in tokens. If it is `None` and one of the trial's limits depends
    /// on output, the request runs alone.
    pub max_output: Option<u64>,
}

/// The amounts that a request asks the meter to reserve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionRequest {
    pub max_usage: MaxUsage,
    /// The amounts to reserve in scopes that trials share.
    pub shared_max_usage: MaxUsage,
    /// Whether this is the last request, which is sent after the trial reached a limit. The trial's
    /// own limits on steps, tokens and cost do not apply to such a request.
    pub is_grace: bool,
}

/// Everything that a request reserves until it is settled.
#[derive(Debug)]
struct HeldResources {
    scope_reservations: Vec<ScopeReservation>,
    /// Reservations against limits that are shared with other processes.
    shared_reservations: Vec<Box<dyn Reservation>>,
    slots: Vec<Slot>,
}

/// A request in flight. Dropping an `Admission` releases its reservations without charging
/// anything.
#[derive(Debug)]
#[must_use = "dropping an admission releases its reservations"]
pub struct Admission {
    resources: HeldResources,
    meter: Arc<Meter>,
    class: RequestClass,
    is_grace: bool,
    /// Whether the attempt has no usable response.
    is_failed: bool,
    /// Total queueing time, and the part of that time spent waiting for limits that trials share.
    queue_times: (Duration, Duration),
}

impl Admission {
    fn new(
        meter: Arc<Meter>,
        resources: HeldResources,
        class: RequestClass,
        is_grace: bool,
        queue_times: (Duration, Duration),
    ) -> Self {
        meter.clock.note_request_start();
        Self { resources, meter, class, is_grace, is_failed: false, queue_times }
    }

    /// Returns the time spent waiting for limits that trials share and for the endpoint's rate
    /// limits. This time does not count as working time.
    pub fn queue_time(&self) -> Duration {
        self.queue_times.0
    }

    /// Returns the part of the queueing time that was spent waiting for limits that trials share.
    pub fn shared_queue_time(&self) -> Duration {
        self.queue_times.1
    }

    /// Marks the attempt as one without a usable response. Its usage does not count toward the
    /// trial's own limits, but toward shared limits.
    pub(crate) fn mark_failed(mut self) -> Self {
        self.is_failed = true;
        self
    }

    /// Charges the usage and cost that the endpoint billed. Set `is_delivered` if the scaffold
    /// received the response: a delivered response in the main conversation is a step. Pass `false`
    /// for responses that were cut off or cannot be parsed.
    ///
    /// Returns the step number if the response was a step.
    pub fn settle(
        mut self,
        usage: &Usage,
        cost_usd: Option<f64>,
        is_delivered: bool,
    ) -> Option<u64> {
        if self.is_grace {
            self.meter.count_grace_response(usage, cost_usd, is_delivered);
        }
        let mut step = None;
        for (place, hold) in self.resources.scope_reservations.drain(..).enumerate() {
            if self.is_failed {
                hold.settle_failed(usage, cost_usd);
                continue;
            }
            let counted = hold.settle(usage, cost_usd, is_delivered);
            // The first reservation is in the trial's own scope, which numbers the trial's steps.
            if place == 0 && !self.is_grace {
                step = counted;
            }
        }
        for reservation in self.resources.shared_reservations.drain(..) {
            reservation.settle(shared::used_amounts(self.class, usage, cost_usd, is_delivered));
        }
        for slot in self.resources.slots.drain(..) {
            slot.finish_answered(usage.input.saturating_add(usage.output));
        }
        step
    }

    /// Ends a request that the endpoint rejected because of a rate limit (429, 529). `retry_after`
    /// is the pause that the endpoint requested, if any. Nothing is charged, and all trials that
    /// use the endpoint slow down.
    pub fn finish_throttled(mut self, retry_after: Option<Duration>) {
        for slot in self.resources.slots.drain(..) {
            slot.finish_throttled(retry_after);
        }
    }
}

impl Meter {
    /// Reserves the requested amounts in every scope, and then a slot in each of the endpoint's
    /// limiters, one after another. While the request waits for shared limits or rate limits, calls
    /// `on_wait` with the time waited so far.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        admission_request: AdmissionRequest,
        limiters: &[Arc<Limiter>],
        on_wait: &(dyn Fn(Duration) + Sync),
    ) -> Result<Admission, RequestError> {
        let mut holds: Vec<ScopeReservation> = Vec::with_capacity(1 + self.shared_meters.len());
        let mut reservations = Vec::new();
        if !admission_request.is_grace {
            holds.push(
                self.own_scope
                    .reserve(admission_request.max_usage.clamp_tokens())
                    .await
                    .map_err(RequestError::Budget)?,
            );
        }
        let (begun, waiting) = (Instant::now(), self.clock.start_wait());
        let entering = async {
            let permit = self.clock.start_wait_timer(WaitKind::SharedLimits);
            for SharedMeter { scope, limit } in &self.shared_meters {
                let (need, of) = (admission_request.shared_max_usage.clamp_tokens(), scope.scope);
                let held = scope.reserve(need).await;
                holds.push(held.map_err(|kind| RequestError::SharedBudget { scope: of, kind })?);
                if let Some(limit) = limit {
                    let alone = scope.is_unbounded(&need) || scope.spending().outgrown;
                    let taken = limit.reserve(&shared::needed_amounts(&need), alone).await;
                    reservations.push(taken.map_err(|refused| refused.into_budget_error(of))?);
                }
            }
            let of_shared = permit.elapsed();
            drop(permit);
            let _place = self.clock.start_wait_timer(WaitKind::RateLimits);
            let is_configured = limiters.iter().any(|limiter| limiter.is_configured());
            let _lost = (!is_configured).then(|| {
                self.clock.lost_time.start_wait_for("the endpoint limits the rate of requests")
            });
            let need = admission_request.max_usage.clamp_tokens();
            let mut slots = Vec::with_capacity(limiters.len());
            for limiter in limiters {
                let tokens = need.input_tokens + need.output_tokens.unwrap_or_default();
                let mut slot = limiter.acquire_slot(tokens).await;
                slot.acquire_shared(tokens).await.map_err(RequestError::Fault)?;
                slots.push(slot);
            }
            Ok::<_, RequestError>((slots, of_shared))
        };
        let (slots, of_shared) = tokio::select! {
            biased;
            entered = entering => entered?,
            never = report_wait(begun, on_wait) => match never {},
        };
        drop(waiting);
        match self.reached_time_limit() {
            Some(kind) => Err(RequestError::Budget(kind)),
            None => {
                let (meter, queued) = (Arc::clone(self), (begun.elapsed(), of_shared));
                let held = HeldResources {
                    scope_reservations: holds,
                    shared_reservations: reservations,
                    slots,
                };
                Ok(Admission::new(
                    meter,
                    held,
                    admission_request.max_usage.class,
                    admission_request.is_grace,
                    queued,
                ))
            }
        }
    }
}

/// Reports a wait after one second and then once a minute, until it is dropped.
async fn report_wait(start: Instant, on_wait: &(dyn Fn(Duration) + Sync)) -> Infallible {
    tokio::time::sleep(FIRST_NOTICE_DELAY).await;
    loop {
        on_wait(start.elapsed());
        tokio::time::sleep(NOTICE_INTERVAL).await;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.meter.clock.note_request_end();
    }
}
