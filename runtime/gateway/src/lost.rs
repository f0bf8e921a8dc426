//! Time that a trial lost to its endpoint: failed attempts, silence until a time limit, the waits
//! after them, and visible queueing at the endpoint (comments before the first event).
//!
//! A slow response is not lost time: the classification is known when an attempt ends. Attempts of
//! one trial may overlap; time that two of them lost counts once.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A pause of the model between two pieces of a response. A longer one before a limit is the endpoint's silence.
const PAUSE: Duration = Duration::from_secs(5);

/// Since when a response that a limit cut had stalled, if it had. `last`: when a piece of it came last.
pub(crate) fn stalled_since(last: Instant) -> Option<Instant> {
    (last.elapsed() > PAUSE).then_some(last)
}

#[derive(Debug, Default)]
pub(crate) struct Lost(Mutex<LossTimes>);

#[derive(Debug, Default)]
struct LossTimes {
    total: Duration,
    /// Time is counted up to here.
    counted: Option<Instant>,
    /// When the current loss started, which no response has ended.
    since: Option<Instant>,
    /// The most recent cause.
    why: String,
}

impl Lost {
    fn add(&self, from: Instant, why: Option<&str>) {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = state.counted.map_or(from, |counted| counted.max(from));
        state.total += now.saturating_duration_since(from);
        state.since.get_or_insert(from);
        state.counted = state.counted.max(Some(now));
        if let Some(why) = why {
            why.clone_into(&mut state.why);
        }
    }

    /// The total, and its most recent cause. `None`: nothing was lost.
    pub(crate) fn total(&self) -> Option<(Duration, String)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!state.total.is_zero()).then(|| (state.total, state.why.clone()))
    }

    /// Since when nothing has arrived, if so.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).since
    }

    /// Starts an attempt. `progress`: when a piece of the response came last.
    pub(crate) fn flight<'a>(
        &'a self,
        progress: impl Fn() -> Option<Instant> + Send + Sync + 'a,
    ) -> Flight<'a> {
        Flight { lost: self, begun: Instant::now(), progress: Box::new(progress), landed: false }
    }

    /// The endpoint queued a request since `from`, and its response starts now.
    pub(crate) fn queued(&self, from: Instant) {
        self.add(from, Some("the endpoint queued the request"));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).since = None;
    }

    /// Counts the wait for another attempt until the guard is dropped.
    pub(crate) fn wait(&self) -> LostWait<'_> {
        LostWait { lost: self, begun: Instant::now(), why: None }
    }

    /// Like `wait`, for a wait that no failed attempt of the trial itself preceded.
    pub(crate) fn wait_for(&self, why: &'static str) -> LostWait<'_> {
        LostWait { why: Some(why), ..self.wait() }
    }
}

/// An attempt in flight. It is a guard, because whatever ends a trial drops what is in flight: a
/// silent attempt that is dropped was lost.
pub(crate) struct Flight<'a> {
    lost: &'a Lost,
    begun: Instant,
    progress: Box<dyn Fn() -> Option<Instant> + Send + Sync + 'a>,
    landed: bool,
}

impl fmt::Debug for Flight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl Flight<'_> {
    /// It failed: all its time was lost.
    pub(crate) fn failed(mut self, why: &str) {
        self.landed = true;
        self.lost.add(self.begun, Some(why));
    }

    /// It brought a response, or a result that the endpoint is not responsible for.
    pub(crate) fn landed(mut self) {
        self.landed = true;
        self.lost.0.lock().unwrap_or_else(PoisonError::into_inner).since = None;
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        let (since, why) = match (self.progress)() {
            None => (Some(self.begun), "the last response did not start"),
            Some(last) => (stalled_since(last), "the last response stalled"),
        };
        if let Some(since) = since {
            self.lost.add(since, Some(why));
        }
    }
}

/// A wait after a failed attempt, or for another trial's attempt.
#[derive(Debug)]
pub(crate) struct LostWait<'a> {
    lost: &'a Lost,
    begun: Instant,
    why: Option<&'static str>,
}

impl Drop for LostWait<'_> {
    fn drop(&mut self) {
        self.lost.add(self.begun, self.why);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Lost;

    #[tokio::test(start_paused = true)]
    async fn lost_counts_failures_silence_and_waits_but_not_responses() {
        let lost = Lost::default();
        let second = Duration::from_secs(1);
        let flight = lost.flight(|| None);
        tokio::time::advance(second).await;
        flight.landed();
        assert_eq!(lost.total(), None);
        let flight = lost.flight(|| None);
        tokio::time::advance(second).await;
        flight.failed("503 overloaded");
        let wait = lost.wait();
        tokio::time::advance(second).await;
        drop(wait);
        assert_eq!(lost.total(), Some((2 * second, "503 overloaded".into())));
        let flight = lost.flight(|| Some(Instant::now()));
        tokio::time::advance(second).await;
        let queued = tokio::time::Instant::now();
        tokio::time::advance(second).await;
        lost.queued(queued);
        assert!(lost.since().is_none(), "its response has begun");
        tokio::time::advance(second).await;
        flight.landed();
        assert_eq!(lost.total().map(|(total, _)| total), Some(3 * second));
        // Two that overlap are cut in the middle, one of them after its first byte.
        let silent = || lost.flight(|| None);
        let (one, two, three) = (lost.flight(|| Some(Instant::now())), silent(), silent());
        tokio::time::advance(second).await;
        drop((one, two, three));
        assert_eq!(lost.total().map(|(total, _)| total), Some(4 * second));
        // The first piece came, and then only heartbeats.
        let first = Instant::now();
        let stalled = lost.flight(move || Some(first));
        tokio::time::advance(10 * second).await;
        drop(stalled);
        assert_eq!(lost.total().map(|(total, _)| total), Some(14 * second));
    }
}
