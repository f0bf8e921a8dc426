//! The trial's clock: wall time, and how much of it was work.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Working time is wall time less the time in which some request waits for the endpoint (its rate
/// limit, a back-off) and none is in flight: while one request of several is answered, the trial
/// works.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    flying: usize,
    waited: Duration,
    idle_since: Option<Instant>,
}

impl State {
    fn change(&mut self, set: impl FnOnce(&mut Self)) {
        let now = Instant::now();
        if let Some(since) = self.idle_since.take() {
            self.waited += now - since;
        }
        set(self);
        self.idle_since = (self.waiting > 0 && self.flying == 0).then_some(now);
    }
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Time that was no work, a wait that goes on included.
    pub(crate) fn waited(&self) -> Duration {
        let state = self.lock();
        state.waited + state.idle_since.map(|since| since.elapsed()).unwrap_or_default()
    }

    pub(crate) fn worked(&self) -> Duration {
        self.elapsed().saturating_sub(self.waited())
    }

    pub(crate) fn took_off(&self) {
        self.lock().change(|state| state.flying += 1);
    }

    pub(crate) fn landed(&self) {
        self.lock().change(|state| state.flying -= 1);
    }

    /// From now to the drop of the guard a request waits for the endpoint.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.lock().change(|state| state.waiting += 1);
        Waiting(self)
    }
}

/// A wait that goes on. It is a guard because a wait may be cut by dropping the ask.
pub(crate) struct Waiting<'a>(&'a Clock);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().change(|state| state.waiting -= 1);
    }
}
