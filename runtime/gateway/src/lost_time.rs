//! Tracks the time that a trial lost to its endpoint: failed attempts, silence until a time limit,
//! the waits after both, and time in the endpoint's queue. Stream comments before the first event
//! show that the endpoint has queued the request.
//!
//! A slow response is not lost time, so an attempt is classified only when it ends. Attempts of one
//! trial may overlap. Time that several of them lost counts only once.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Longest pause between two response chunks that still counts as the model's own time. A longer
/// pause before a time limit is attributed to an unresponsive endpoint.
const MAX_MODEL_PAUSE: Duration = Duration::from_secs(5);

/// If a response had stalled when a limit cut it off, returns when the stall started.
/// `last_chunk_at` is the time at which the last chunk arrived.
pub(crate) fn stall_start(last_chunk_at: Instant) -> Option<Instant> {
    (last_chunk_at.elapsed() > MAX_MODEL_PAUSE).then_some(last_chunk_at)
}

#[derive(Debug, Default)]
pub(crate) struct LostTime(Mutex<LossTimes>);

#[derive(Debug, Default)]
struct LossTimes {
    total: Duration,
    /// Lost time before this instant is already part of `total`.
    counted_until: Option<Instant>,
    /// Start of the current loss, if no response has ended it yet.
    loss_start: Option<Instant>,
    /// The most recent cause.
    cause: String,
}

impl LostTime {
    fn add(&self, start: Instant, cause: Option<&str>) {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = state.counted_until.map_or(start, |counted| counted.max(start));
        state.total += now.saturating_duration_since(from);
        state.loss_start.get_or_insert(from);
        state.counted_until = state.counted_until.max(Some(now));
        if let Some(why) = cause {
            why.clone_into(&mut state.cause);
        }
    }

    /// Returns the total and its most recent cause, or `None` if no time was lost.
    pub(crate) fn total_and_cause(&self) -> Option<(Duration, String)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!state.total.is_zero()).then(|| (state.total, state.cause.clone()))
    }

    /// Returns when the current loss started, if one is in progress.
    pub(crate) fn current_loss_start(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).loss_start
    }

    /// Starts an attempt. `last_progress` returns when the last chunk of the response arrived.
    pub(crate) fn start_attempt<'a>(
        &'a self,
        last_progress: impl Fn() -> Option<Instant> + Send + Sync + 'a,
    ) -> AttemptGuard<'a> {
        AttemptGuard {
            lost_time: self,
            start: Instant::now(),
            last_progress: Box::new(last_progress),
            is_complete: false,
        }
    }

    /// Counts the time since `start` as time in the endpoint's queue, which ends now because the
    /// response has started.
    pub(crate) fn add_queueing(&self, start: Instant) {
        self.add(start, Some("the endpoint queued the request"));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).loss_start = None;
    }

    /// Counts the time until the guard is dropped as a wait for the next attempt.
    pub(crate) fn start_wait(&self) -> LostWaitGuard<'_> {
        LostWaitGuard { lost_time: self, start: Instant::now(), cause: None }
    }

    /// Like [`Self::start_wait`], but for a wait that has another cause than a failed attempt of
    /// this trial.
    pub(crate) fn start_wait_for(&self, cause: &'static str) -> LostWaitGuard<'_> {
        LostWaitGuard { cause: Some(cause), ..self.start_wait() }
    }
}

/// Guards an attempt in flight, because such attempts are dropped when a trial ends. If the
/// endpoint was silent during a dropped attempt, the attempt's time counts as lost.
pub(crate) struct AttemptGuard<'a> {
    lost_time: &'a LostTime,
    start: Instant,
    last_progress: Box<dyn Fn() -> Option<Instant> + Send + Sync + 'a>,
    is_complete: bool,
}

impl fmt::Debug for AttemptGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptGuard").field("begun", &self.start).finish_non_exhaustive()
    }
}

impl AttemptGuard<'_> {
    /// Ends an attempt that failed: all its time was lost.
    pub(crate) fn fail(mut self, cause: &str) {
        self.is_complete = true;
        self.lost_time.add(self.start, Some(cause));
    }

    /// Ends an attempt with a response, or with a result that the endpoint did not cause.
    pub(crate) fn complete(mut self) {
        self.is_complete = true;
        self.lost_time.0.lock().unwrap_or_else(PoisonError::into_inner).loss_start = None;
    }
}

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let (since, why) = match (self.last_progress)() {
            None => (Some(self.start), "the last response did not start"),
            Some(last) => (stall_start(last), "the last response stalled"),
        };
        if let Some(since) = since {
            self.lost_time.add(since, Some(why));
        }
    }
}

/// A guard that counts lost time until it is dropped. It covers the wait after a failed attempt and
/// the wait while another trial makes an attempt.
#[derive(Debug)]
pub(crate) struct LostWaitGuard<'a> {
    lost_time: &'a LostTime,
    start: Instant,
    cause: Option<&'static str>,
}

impl Drop for LostWaitGuard<'_> {
    fn drop(&mut self) {
        self.lost_time.add(self.start, self.cause);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::LostTime;

    #[tokio::test(start_paused = true)]
    async fn lost_time_excludes_completed_responses() {
        let lost = LostTime::default();
        let second = Duration::from_secs(1);
        let attempt = lost.start_attempt(|| None);
        tokio::time::advance(second).await;
        attempt.complete();
        assert_eq!(lost.total_and_cause(), None);
        let attempt = lost.start_attempt(|| None);
        tokio::time::advance(second).await;
        attempt.fail("503 overloaded");
        let wait = lost.start_wait();
        tokio::time::advance(second).await;
        drop(wait);
        assert_eq!(lost.total_and_cause(), Some((2 * second, "503 overloaded".into())));
        let attempt = lost.start_attempt(|| Some(Instant::now()));
        tokio::time::advance(second).await;
        let queued = tokio::time::Instant::now();
        tokio::time::advance(second).await;
        lost.add_queueing(queued);
        assert!(lost.current_loss_start().is_none(), "the response has started");
        tokio::time::advance(second).await;
        attempt.complete();
        assert_eq!(lost.total_and_cause().map(|(total, _)| total), Some(3 * second));
        // Three overlapping attempts are dropped, one of them after its first byte.
        let silent = || lost.start_attempt(|| None);
        let (one, two, three) = (lost.start_attempt(|| Some(Instant::now())), silent(), silent());
        tokio::time::advance(second).await;
        drop((one, two, three));
        assert_eq!(lost.total_and_cause().map(|(total, _)| total), Some(4 * second));
        // The first piece arrived, and then only heartbeats.
        let first = Instant::now();
        let stalled = lost.start_attempt(move || Some(first));
        tokio::time::advance(10 * second).await;
        drop(stalled);
        assert_eq!(lost.total_and_cause().map(|(total, _)| total), Some(14 * second));
    }
}
