//! One endpoint's rate limits, shared by all trials of a run.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use proctor_types::Fault;
use tokio::{sync::Notify, time::Instant};

use crate::{
    rates::{EndpointRates, RatePolicy},
    retry::seconds,
    shared::{Amounts, REQUESTS, Reservation, ReserveError, SharedRates, TOKENS},
};

/// Admits requests in order of arrival, as soon as the configured limits and those learned from
/// rejections allow it.
///
/// The limit on requests in flight follows AIMD (additive increase, multiplicative decrease): a
/// rejection multiplies the limit by a fraction, and each successful response raises it slightly.
/// There is no limit before the first rejection, so an endpoint that never rejects is never slowed
/// down.
#[derive(Debug)]
pub(crate) struct Limiter {
    rates: EndpointRates,
    policy: RatePolicy,
    /// The same limits across processes, if they are shared.
    shared_rates: SharedRates,
    state: Mutex<RequestQueue>,
    change_notify: Notify,
}

#[derive(Debug, Default)]
struct RequestQueue {
    queue: VecDeque<u64>,
    next_ticket: u64,
    in_flight: usize,
    /// The limit on requests in flight that was learned from rejections, or `None` before the first
    /// rejection.
    learned_limit: Option<f64>,
    last_reduction_at: Option<Instant>,
    paused_until: Option<Instant>,
    /// The requests of the last window with their tokens, in the order in which they were sent.
    recent_requests: VecDeque<SentRequest>,
}

#[derive(Debug)]
struct SentRequest {
    ticket: u64,
    sent_at: Instant,
    tokens: u64,
}

impl Limiter {
    pub(crate) fn new(rates: EndpointRates, policy: RatePolicy) -> Arc<Self> {
        Self::with_shared_rates(rates, policy, SharedRates::default())
    }

    pub(crate) fn with_shared_rates(
        rates: EndpointRates,
        policy: RatePolicy,
        shared_rates: SharedRates,
    ) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { rates, policy, shared_rates, state, change_notify: changed })
    }

    /// Whether the configuration limits the endpoint's rate. If not, requests wait only because the
    /// endpoint rejected others.
    pub(crate) fn is_configured(&self) -> bool {
        self.rates.max_concurrent.is_some()
            || self.rates.requests_per_minute.is_some()
            || self.rates.tokens_per_minute.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, RequestQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when a request of at most `tokens` may be sent. Dropping the future removes the
    /// request from the queue.
    pub(crate) async fn acquire_slot(self: &Arc<Self>, tokens: u64) -> Slot {
        let place = Ticket::take(self);
        loop {
            let changed = self.change_notify.notified();
            match self.try_enter(place.ticket, tokens) {
                EntryDecision::Enter(left_at) => {
                    let (limiter, ticket) = (Arc::clone(self), place.ticket);
                    let (in_flight, window) = (None, None);
                    return Slot {
                        limiter,
                        ticket,
                        sent_at: left_at,
                        in_flight_reservation: in_flight,
                        window_reservation: window,
                        end: SlotEnd::Dropped,
                    };
                }
                EntryDecision::WaitForChange => changed.await,
                EntryDecision::WaitUntil(time) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(time) => {}
                },
            }
        }
    }

    fn try_enter(&self, ticket: u64, tokens: u64) -> EntryDecision {
        let mut state = self.lock();
        let (now, window) = (Instant::now(), seconds(self.policy.window_seconds));
        if state.queue.front() != Some(&ticket) {
            return EntryDecision::WaitForChange;
        }
        if let Some(until) = state.paused_until.filter(|until| *until > now) {
            return EntryDecision::WaitUntil(until);
        }
        let configured = self.rates.max_concurrent.map(|most| most.max(1) as f64);
        let learnt = state.learned_limit.map(|most| most.max(1.0));
        let most = configured.unwrap_or(f64::INFINITY).min(learnt.unwrap_or(f64::INFINITY));
        if state.in_flight as f64 + 1.0 > most {
            return EntryDecision::WaitForChange;
        }
        while state.recent_requests.front().is_some_and(|first| first.sent_at + window <= now) {
            state.recent_requests.pop_front();
        }
        if let Some(first) = state.recent_requests.front() {
            let sum: u64 = state.recent_requests.iter().map(|one| one.tokens).sum();
            let over = |limit: Option<u64>, have: u64| limit.is_some_and(|limit| have > limit);
            // If a request has more tokens than a whole window allows, it is sent when the window
            // is empty.
            if over(self.rates.requests_per_minute, state.recent_requests.len() as u64 + 1)
                || over(self.rates.tokens_per_minute, sum.saturating_add(tokens))
            {
                return EntryDecision::WaitUntil(first.sent_at + window);
            }
        }
        if self.rates.requests_per_minute.or(self.rates.tokens_per_minute).is_some() {
            state.recent_requests.push_back(SentRequest { ticket, sent_at: now, tokens });
        }
        state.in_flight += 1;
        EntryDecision::Enter(now)
    }

    fn release_slot(&self, slot: &Slot) {
        let mut state = self.lock();
        let now = Instant::now();
        state.in_flight = state.in_flight.saturating_sub(1);
        match slot.end {
            SlotEnd::Dropped => {}
            SlotEnd::Answered { tokens } => {
                if let Some(own) =
                    state.recent_requests.iter_mut().find(|one| one.ticket == slot.ticket)
                {
                    own.tokens = tokens;
                }
                if let Some(most) = &mut state.learned_limit {
                    *most += self.policy.increase / most.max(1.0);
                }
            }
            SlotEnd::Throttled { retry_after } => {
                // Requests that were sent before the last reduction are part of the load that
                // caused the reduction, so their rejections give no new information.
                if state.last_reduction_at.is_none_or(|cut| slot.sent_at >= cut) {
                    let in_flight = (state.in_flight + 1) as f64;
                    let most = state.learned_limit.map_or(in_flight, |most| most.min(in_flight));
                    state.learned_limit = Some((most * self.policy.decrease).max(1.0));
                    state.last_reduction_at = Some(now);
                }
                if let Some(retry_after) = retry_after {
                    let pause = retry_after.min(seconds(self.policy.longest_pause_seconds));
                    state.paused_until = state.paused_until.max(Some(now + pause));
                }
            }
        }
        drop(state);
        self.change_notify.notify_waiters();
    }

    #[cfg(test)]
    fn learned_limit(&self) -> Option<f64> {
        self.lock().learned_limit
    }
}

enum EntryDecision {
    Enter(Instant),
    /// Check again when something changes.
    WaitForChange,
    /// Check again at this time.
    WaitUntil(Instant),
}

#[derive(Debug, Clone, Copy)]
enum SlotEnd {
    Dropped,
    Answered { tokens: u64 },
    Throttled { retry_after: Option<Duration> },
}

struct Ticket<'a> {
    limiter: &'a Limiter,
    ticket: u64,
}

impl<'a> Ticket<'a> {
    fn take(limiter: &'a Limiter) -> Self {
        let mut state = limiter.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push_back(ticket);
        Self { limiter, ticket }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.limiter.lock().queue.retain(|ticket| *ticket != self.ticket);
        self.limiter.change_notify.notify_waiters();
    }
}

/// A request in flight at an endpoint. Dropping it ends the request without adjusting the limits.
#[derive(Debug)]
pub(crate) struct Slot {
    limiter: Arc<Limiter>,
    ticket: u64,
    sent_at: Instant,
    in_flight_reservation: Option<Box<dyn Reservation>>,
    window_reservation: Option<Box<dyn Reservation>>,
    end: SlotEnd,
}

impl Slot {
    /// Resolves when the limits that are shared with other processes also allow the request.
    ///
    /// # Errors
    /// Fails if the shared state cannot be read.
    pub(crate) async fn acquire_shared(&mut self, tokens: u64) -> Result<(), Fault> {
        let SharedRates { in_flight_limit: in_flight, window_limit: window } =
            self.limiter.shared_rates.clone();
        if let Some(limit) = in_flight {
            let taken = limit.reserve(&request_amounts(None), false).await;
            self.in_flight_reservation = Some(taken.map_err(ReserveError::into_rate_fault)?);
        }
        if let Some(limit) = window {
            let taken = limit.reserve(&request_amounts(Some(tokens)), false).await;
            self.window_reservation = Some(taken.map_err(ReserveError::into_rate_fault)?);
        }
        Ok(())
    }

    /// Ends the request after a response with this many input and output tokens.
    pub(crate) fn finish_answered(mut self, tokens: u64) {
        self.end = SlotEnd::Answered { tokens };
    }

    /// Ends the request after a rejection, optionally with a requested pause.
    pub(crate) fn finish_throttled(mut self, retry_after: Option<Duration>) {
        self.end = SlotEnd::Throttled { retry_after };
    }
}

/// Returns the amounts of one request: a count of one, and its tokens if they are given.
fn request_amounts(tokens: Option<u64>) -> Amounts {
    let tokens = tokens.map(|tokens| (TOKENS.to_owned(), tokens));
    Some((REQUESTS.to_owned(), 1)).into_iter().chain(tokens).collect()
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let (Some(window), SlotEnd::Answered { tokens }) =
            (self.window_reservation.take(), self.end)
        {
            window.settle(request_amounts(Some(tokens)));
        }
        self.limiter.release_slot(self);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::{Instant, timeout};

    use super::Limiter;
    use crate::rates::{EndpointRates, RatePolicy};

    fn limiter(configure: impl FnOnce(&mut EndpointRates)) -> Arc<Limiter> {
        let mut rates = EndpointRates::default();
        configure(&mut rates);
        Limiter::new(rates, RatePolicy::shipped().expect("a valid policy"))
    }

    /// Seconds until a request is admitted.
    async fn time_admission(limiter: &Arc<Limiter>, tokens: u64) -> (f64, super::Slot) {
        let begun = Instant::now();
        let slot = limiter.acquire_slot(tokens).await;
        (begun.elapsed().as_secs_f64(), slot)
    }

    #[tokio::test(start_paused = true)]
    async fn limiter_caps_requests_in_flight() {
        let limiter = limiter(|rates| rates.max_concurrent = Some(2));
        let (first, _second) = (limiter.acquire_slot(1).await, limiter.acquire_slot(1).await);
        let third = limiter.acquire_slot(1);
        tokio::pin!(third);
        assert!(timeout(Duration::from_secs(1), &mut third).await.is_err());
        first.finish_answered(1);
        timeout(Duration::from_secs(1), third).await.expect("the first request's slot is free");
    }

    #[tokio::test(start_paused = true)]
    async fn limiter_caps_requests_per_minute() {
        let limiter = limiter(|rates| rates.requests_per_minute = Some(3));
        let begun = Instant::now();
        let mut left = Vec::new();
        for _ in 0..7 {
            limiter.acquire_slot(1).await.finish_answered(1);
            left.push(begun.elapsed().as_secs());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        for (early, late) in left.iter().zip(&left[3..]) {
            assert!(late - early >= 60, "{left:?}");
        }
        assert!(left[6] < 125, "requests wait no longer than needed: {left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn limiter_counts_actual_tokens_per_minute() {
        let limiter = limiter(|rates| rates.tokens_per_minute = Some(1000));
        // The request reserved 900 tokens but used 100, so the next 900 fit.
        limiter.acquire_slot(900).await.finish_answered(100);
        let (waited, slot) = time_admission(&limiter, 900).await;
        assert!(waited < 1.0, "{waited}");
        slot.finish_answered(900);
        let (waited, slot) = time_admission(&limiter, 100).await;
        assert!((59.0..61.0).contains(&waited), "{waited}");
        slot.finish_answered(100);
        // A request with more tokens than a whole window allows is sent when the window is empty.
        let (waited, _slot) = time_admission(&limiter, 5000).await;
        assert!((59.0..61.0).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn simultaneous_rejections_halve_the_limit_once_and_responses_raise_it() {
        let limiter = limiter(|_| {});
        let mut crowd = Vec::new();
        for _ in 0..8 {
            crowd.push(limiter.acquire_slot(1).await);
        }
        assert_eq!(limiter.learned_limit(), None, "no limit before the first rejection");
        tokio::time::advance(Duration::from_millis(1)).await;
        for slot in crowd.drain(..) {
            slot.finish_throttled(None);
        }
        assert_eq!(
            limiter.learned_limit(),
            Some(4.0),
            "eight simultaneous rejections count as one"
        );
        for _ in 0..4 {
            limiter.acquire_slot(1).await.finish_answered(1);
        }
        let most = limiter.learned_limit().expect("learnt");
        assert!((4.8..5.1).contains(&most), "a window of responses adds one: {most}");
        for _ in 0..20 {
            tokio::time::advance(Duration::from_millis(1)).await;
            limiter.acquire_slot(1).await.finish_throttled(None);
        }
        assert_eq!(limiter.learned_limit(), Some(1.0), "never less than one");
    }

    #[tokio::test(start_paused = true)]
    async fn requested_pause_delays_all_requests_and_is_capped() {
        let limiter = limiter(|_| {});
        limiter.acquire_slot(1).await.finish_throttled(Some(Duration::from_secs(20)));
        let (waited, slot) = time_admission(&limiter, 1).await;
        assert!((20.0..21.0).contains(&waited), "{waited}");
        slot.finish_throttled(Some(Duration::from_secs(3600)));
        let (waited, _slot) = time_admission(&limiter, 1).await;
        assert!((60.0..61.0).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_request_leaves_the_queue() {
        let limiter = limiter(|rates| rates.max_concurrent = Some(1));
        let first = limiter.acquire_slot(1).await;
        assert!(timeout(Duration::from_secs(1), limiter.acquire_slot(1)).await.is_err());
        drop(first);
        timeout(Duration::from_secs(1), limiter.acquire_slot(1)).await.expect("the queue is empty");
    }
}
