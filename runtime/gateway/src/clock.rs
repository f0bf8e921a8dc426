//! The trial's clock: wall time, working time and time spent in tools.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use proctor_types::RequestWaits;
use tokio::{sync::Notify, time::Instant};

use crate::{PriorUsage, lost_time::LostTime};

/// Measures a trial's wall time, working time and tool time. All of them exclude the time that was
/// lost to the endpoint. Working time also excludes the time during which a request waits for shared
/// limits or rate limits and no other request is in flight.
#[derive(Debug)]
pub(crate) struct Clock {
    started_at: Instant,
    /// Total time of earlier tries.
    prior_elapsed: Duration,
    /// Parts of `prior_elapsed` that are not charged, because the endpoint caused them: failed
    /// attempts, and the waits after those attempts.
    uncharged_time: (Duration, Duration),
    state: Mutex<ClockTimes>,
    tools_change_notify: Notify,
    /// Total wait time of all requests, by reason. Overlapping waits each count in full.
    waits: Mutex<RequestWaits>,
    /// The time that this try has lost to the endpoint.
    pub(crate) lost_time: LostTime,
}

/// What a request is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    SharedLimits,
    RateLimits,
    Retry,
}

#[derive(Debug, Default)]
struct ClockTimes {
    waiting_requests: usize,
    requests_in_flight: usize,
    wait_time: Duration,
    idle_since: Option<Instant>,
    running_tools: u32,
    tool_time: Duration,
    /// When `tool_time` was last updated.
    tool_time_updated_at: Option<Instant>,
}

impl ClockTimes {
    fn update(&mut self, mutate: impl FnOnce(&mut Self)) {
        let now = Instant::now();
        if let Some(since) = self.idle_since.take() {
            self.wait_time += now - since;
        }
        let tools = self.running_tools;
        mutate(self);
        if let Some(since) = self.tool_time_updated_at.take() {
            self.tool_time += (now - since) * tools;
        }
        self.tool_time_updated_at = (self.running_tools > 0).then_some(now);
        self.idle_since =
            (self.waiting_requests > 0 && self.requests_in_flight == 0).then_some(now);
    }
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self::resume_from(&PriorUsage::default())
    }

    /// Returns the clock of a resumed trial. Earlier failed attempts and the waits after them do
    /// not count toward the limits, because the endpoint caused them.
    pub(crate) fn resume_from(prior_usage: &PriorUsage) -> Self {
        let PriorUsage {
            elapsed,
            wait_time: waited,
            tool_time: in_tools,
            wait_totals: waits,
            lost_time: lost,
            spending: _,
        } = *prior_usage;
        let retries = Duration::try_from_secs_f64(waits.retries).unwrap_or_default();
        Self {
            started_at: Instant::now(),
            prior_elapsed: elapsed,
            uncharged_time: (lost, retries),
            state: Mutex::new(ClockTimes {
                wait_time: waited,
                tool_time: in_tools,
                ..ClockTimes::default()
            }),
            tools_change_notify: Notify::new(),
            waits: Mutex::new(waits),
            lost_time: LostTime::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClockTimes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.prior_elapsed + self.started_at.elapsed()
    }

    /// Returns the time that counts toward a wall limit. Of the time that this try has lost to the
    /// endpoint, at most `max_loss` is excluded, so that a trial ends even if its endpoint never
    /// recovers.
    pub(crate) fn wall_time(&self, max_loss: Duration) -> Duration {
        let (sends, waits) = self.uncharged_time;
        self.elapsed().saturating_sub(sends + waits + self.lost_time.confirmed().min(max_loss))
    }

    /// Returns the time that does not count as work, including a wait in progress.
    pub(crate) fn wait_time(&self) -> Duration {
        let state = self.lock();
        state.wait_time + state.idle_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns the time that counts toward a working limit. See [`Self::wall_time`].
    pub(crate) fn working_time(&self, max_loss: Duration) -> Duration {
        // Waits are excluded anyway.
        let lost = self.lost_time.confirmed_in_attempts().min(max_loss);
        self.elapsed().saturating_sub(self.wait_time() + self.uncharged_time.0 + lost)
    }

    pub(crate) fn note_request_start(&self) {
        self.lock().update(|state| state.requests_in_flight += 1);
    }

    pub(crate) fn note_request_end(&self) {
        self.lock().update(|state| state.requests_in_flight -= 1);
    }

    pub(crate) fn note_tool_start(&self) {
        self.lock().update(|state| state.running_tools += 1);
        self.tools_change_notify.notify_waiters();
    }

    pub(crate) fn note_tool_end(&self) {
        self.lock().update(|state| state.running_tools = state.running_tools.saturating_sub(1));
        self.tools_change_notify.notify_waiters();
    }

    /// Returns the total time spent in tools, including running calls.
    pub(crate) fn tool_time(&self) -> Duration {
        let state = self.lock();
        let running = state.tool_time_updated_at.map(|since| since.elapsed() * state.running_tools);
        state.tool_time + running.unwrap_or_default()
    }

    /// Resolves when tools have run for `limit` in total.
    pub(crate) async fn wait_for_tool_time(&self, limit: Duration) {
        loop {
            let changed = self.tools_change_notify.notified();
            let running = self.lock().running_tools;
            let left = limit.saturating_sub(self.tool_time());
            if left.is_zero() {
                return;
            }
            match left.checked_div(running) {
                None => changed.await,
                Some(left) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(left) => {}
                },
            }
        }
    }

    pub(crate) fn wait_totals(&self) -> RequestWaits {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Measures how long a request waits for this reason. The measurement ends when the guard is
    /// dropped.
    pub(crate) fn start_wait_timer(&self, kind: WaitKind) -> WaitTimer<'_> {
        WaitTimer { clock: self, kind, start: Instant::now() }
    }

    /// Counts a request as waiting for the endpoint until the guard is dropped.
    pub(crate) fn start_wait(&self) -> WaitGuard<'_> {
        self.lock().update(|state| state.waiting_requests += 1);
        WaitGuard(self)
    }
}

/// Measures one wait. On drop, adds the wait to the total for its kind, so that the waits of
/// cancelled requests are counted too.
pub(crate) struct WaitTimer<'a> {
    clock: &'a Clock,
    kind: WaitKind,
    start: Instant,
}

impl WaitTimer<'_> {
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Drop for WaitTimer<'_> {
    fn drop(&mut self) {
        let seconds = self.elapsed().as_secs_f64();
        let mut waits = self.clock.waits.lock().unwrap_or_else(PoisonError::into_inner);
        *match self.kind {
            WaitKind::SharedLimits => &mut waits.shared_limits,
            WaitKind::RateLimits => &mut waits.rate_limits,
            WaitKind::Retry => &mut waits.retries,
        } += seconds;
    }
}

/// Counts a request as waiting until dropped. Cancelling a request drops its guard, too.
pub(crate) struct WaitGuard<'a>(&'a Clock);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().update(|state| state.waiting_requests -= 1);
    }
}
