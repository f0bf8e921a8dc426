//! The trial's clock: wall time, how much of it was work, and how much was spent in tools.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use proctor_types::RequestWaits;
use tokio::{sync::Notify, time::Instant};

use crate::meter::Used;

/// Working time is wall time less the time in which some request waits for the endpoint (its rate
/// limit, a back-off) and none is in flight: while one request of several is answered, the trial
/// works.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// Before that.
    earlier: Duration,
    /// Of `earlier`, what the endpoint lost in sends, and in the waits after them.
    given_back: (Duration, Duration),
    state: Mutex<State>,
    tools_changed: Notify,
    /// Each wait on its own, by what it was for.
    waits: Mutex<RequestWaits>,
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    SharedLimits,
    RateLimits,
    Retry,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    flying: usize,
    waited: Duration,
    idle_since: Option<Instant>,
    tools: u32,
    in_tools: Duration,
    /// When `in_tools` was last added to.
    tools_since: Option<Instant>,
}

impl State {
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
        self.idle_since = (self.waiting > 0 && self.flying == 0).then_some(now);
    }
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self::after(&Used::default())
    }

    /// The clock of a trial that was interrupted. Its limits do not count what the endpoint lost before: sends, and the
    /// waits after them.
    pub(crate) fn after(used: &Used) -> Self {
        let Used { elapsed, waited, in_tools, waits, lost, spent: _ } = *used;
        let retries = Duration::try_from_secs_f64(waits.retries).unwrap_or_default();
        Self {
            started: Instant::now(),
            earlier: elapsed,
            given_back: (lost, retries),
            state: Mutex::new(State { waited, in_tools, ..State::default() }),
            tools_changed: Notify::new(),
            waits: Mutex::new(waits),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.earlier + self.started.elapsed()
    }

    /// What the wall limit counts.
    pub(crate) fn counted(&self) -> Duration {
        let (sends, waits) = self.given_back;
        self.elapsed().saturating_sub(sends + waits)
    }

    /// Time that was no work, a wait that goes on included.
    pub(crate) fn waited(&self) -> Duration {
        let state = self.lock();
        state.waited + state.idle_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    pub(crate) fn worked(&self) -> Duration {
        self.elapsed().saturating_sub(self.waited() + self.given_back.0)
    }

    pub(crate) fn took_off(&self) {
        self.lock().change(|state| state.flying += 1);
    }

    pub(crate) fn landed(&self) {
        self.lock().change(|state| state.flying -= 1);
    }

    pub(crate) fn tool_began(&self) {
        self.lock().change(|state| state.tools += 1);
        self.tools_changed.notify_waiters();
    }

    pub(crate) fn tool_ended(&self) {
        self.lock().change(|state| state.tools = state.tools.saturating_sub(1));
        self.tools_changed.notify_waiters();
    }

    /// The sum of the time in tools, calls that run included.
    pub(crate) fn in_tools(&self) -> Duration {
        let state = self.lock();
        let running = state.tools_since.map(|since| since.elapsed() * state.tools);
        state.in_tools + running.unwrap_or_default()
    }

    /// Comes when tools have run for `limit` altogether.
    pub(crate) async fn tools_reach(&self, limit: Duration) {
        loop {
            let changed = self.tools_changed.notified();
            let running = self.lock().tools;
            let left = limit.saturating_sub(self.in_tools());
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

    pub(crate) fn waits(&self) -> RequestWaits {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now to the drop of the guard a request waits for this.
    pub(crate) fn wait_for(&self, kind: WaitKind) -> KindOfWait<'_> {
        KindOfWait { clock: self, kind, since: Instant::now() }
    }

    /// From now to the drop of the guard a request waits for the endpoint.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.lock().change(|state| state.waiting += 1);
        Waiting(self)
    }
}

/// A wait of one kind that goes on; a guard for the same reason as the one below.
pub(crate) struct KindOfWait<'a> {
    clock: &'a Clock,
    kind: WaitKind,
    since: Instant,
}

impl KindOfWait<'_> {
    pub(crate) fn so_far(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Drop for KindOfWait<'_> {
    fn drop(&mut self) {
        let seconds = self.so_far().as_secs_f64();
        let mut waits = self.clock.waits.lock().unwrap_or_else(PoisonError::into_inner);
        *match self.kind {
            WaitKind::SharedLimits => &mut waits.shared_limits,
            WaitKind::RateLimits => &mut waits.rate_limits,
            WaitKind::Retry => &mut waits.retries,
        } += seconds;
    }
}

/// A wait that goes on. It is a guard because a wait may be cut by dropping the ask.
pub(crate) struct Waiting<'a>(&'a Clock);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().change(|state| state.waiting -= 1);
    }
}
