//! The trial's clock: wall time, working time and time spent in tools.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use proctor_types::RequestWaits;
use tokio::{sync::Notify, time::Instant};

use crate::PriorUsage;

/// Working time is wall time minus the time during which a request waits for the endpoint (rate
/// limit, back-off) and no other request is in flight.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Total time of earlier tries.
    earlier: Duration,
    /// Parts of `earlier` that are not charged, because the endpoint caused them: failed attempts,
    /// and the waits after those attempts.
    uncharged_time: (Duration, Duration),
    state: Mutex<ClockTimes>,
    tools_changed: Notify,
    /// Total wait time of all requests, by reason. Overlapping waits each count in full.
    waits: Mutex<RequestWaits>,
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
    waiting: usize,
    in_flight: usize,
    waited: Duration,
    idle_since: Option<Instant>,
    tools: u32,
    in_tools: Duration,
    /// When `in_tools` was last updated.
    tools_since: Option<Instant>,
}

impl ClockTimes {
    fn change(&mut self, set: impl FnOnce(&mut Self)) {
        let now = Instant::now();
        if let Some(since) = self.idle_since.take() {
            self.waited += now - since;
        }
        let tools = self.tools;
        set(self);
        if let Some(since) = self.tools_since.take() {
            self.in_tools += (now - since) * tools;
        }
        self.tools_since = (self.tools > 0).then_some(now);
        self.idle_since = (self.waiting > 0 && self.in_flight == 0).then_some(now);
    }
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self::resume_from(&PriorUsage::default())
    }

    /// Returns the clock of a resumed trial. Earlier failed attempts and the waits after them do
    /// not count towards the limits, because the endpoint caused them.
    pub(crate) fn resume_from(used: &PriorUsage) -> Self {
        let PriorUsage { elapsed, waited, in_tools, waits, lost, spent: _ } = *used;
        let retries = Duration::try_from_secs_f64(waits.retries).unwrap_or_default();
        Self {
            started: Instant::now(),
            earlier: elapsed,
            uncharged_time: (lost, retries),
            state: Mutex::new(ClockTimes { waited, in_tools, ..ClockTimes::default() }),
            tools_changed: Notify::new(),
            waits: Mutex::new(waits),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClockTimes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.earlier + self.started.elapsed()
    }

    /// Returns the time that counts towards the wall limit.
    pub(crate) fn wall_time(&self) -> Duration {
        let (sends, waits) = self.uncharged_time;
        self.elapsed().saturating_sub(sends + waits)
    }

    /// Returns the time that does not count as work, including a wait in progress.
    pub(crate) fn wait_time(&self) -> Duration {
        let state = self.lock();
        state.waited + state.idle_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    pub(crate) fn working_time(&self) -> Duration {
        self.elapsed().saturating_sub(self.wait_time() + self.uncharged_time.0)
    }

    pub(crate) fn request_started(&self) {
        self.lock().change(|state| state.in_flight += 1);
    }

    pub(crate) fn request_ended(&self) {
        self.lock().change(|state| state.in_flight -= 1);
    }

    pub(crate) fn tool_started(&self) {
        self.lock().change(|state| state.tools += 1);
        self.tools_changed.notify_waiters();
    }

    pub(crate) fn tool_ended(&self) {
        self.lock().change(|state| state.tools = state.tools.saturating_sub(1));
        self.tools_changed.notify_waiters();
    }

    /// Returns the total time spent in tools, including running calls.
    pub(crate) fn tool_time(&self) -> Duration {
        let state = self.lock();
        let running = state.tools_since.map(|since| since.elapsed() * state.tools);
        state.in_tools + running.unwrap_or_default()
    }

    /// Resolves when tools have run for `limit` in total.
    pub(crate) async fn wait_for_tool_time(&self, limit: Duration) {
        loop {
            let changed = self.tools_changed.notified();
            let running = self.lock().tools;
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

    /// Times a request's wait for this reason until the guard is dropped.
    pub(crate) fn start_wait_timer(&self, kind: WaitKind) -> WaitTimer<'_> {
        WaitTimer { clock: self, kind, since: Instant::now() }
    }

    /// Counts a request's wait for the endpoint until the guard is dropped.
    pub(crate) fn start_wait(&self) -> WaitGuard<'_> {
        self.lock().change(|state| state.waiting += 1);
        WaitGuard(self)
    }
}

/// Times one wait and adds it to the total of its kind on drop, so that cancelled requests are
/// counted too.
pub(crate) struct WaitTimer<'a> {
    clock: &'a Clock,
    kind: WaitKind,
    since: Instant,
}

impl WaitTimer<'_> {
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
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

/// Guards a wait in progress, because cancelling a request drops its wait.
pub(crate) struct WaitGuard<'a>(&'a Clock);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().change(|state| state.waiting -= 1);
    }
}
