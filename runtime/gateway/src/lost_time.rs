//! Tracks the time that a trial lost to its endpoint: failed attempts, silence until a time limit,
//! the waits after both, and time in the endpoint's queue. Stream comments before the first event
//! show that the endpoint has queued the request. Some endpoints state the time in their response.
//!
//! A slow response is not lost time, so an attempt is classified only when it ends. A wait is lost
//! from its start. Attempts of one trial may overlap. Time that several of them lost counts only
//! once.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
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

/// Shorter waits are not counted.
pub(crate) const MIN_WAIT: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(crate) struct LostTime(Mutex<LossTimes>);

#[derive(Debug, Default)]
struct LossTimes {
    total: Duration,
    /// The part of `total` that was lost in waits.
    waits: Duration,
    /// The part of `total` that was lost in attempts that were dropped since the last complete
    /// response.
    dropped: Duration,
    /// The longest attempt with a complete response.
    longest_attempt: Duration,
    /// Number of waits in progress, and the start of the first of them.
    current_waits: (usize, Option<Instant>),
    /// Lost time before this instant is already part of `total`.
    counted_until: Option<Instant>,
    /// Start of the current loss, if no response has ended it yet.
    loss_start: Option<Instant>,
    /// The most recent cause.
    cause: String,
}

/// The time that a trial has lost so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    pub total: Duration,
    /// The part of `total` in attempts that were dropped since the last complete response. The
    /// endpoint may have been silent, or may have needed more time.
    pub dropped: Duration,
    /// The longest attempt with a complete response.
    pub longest_attempt: Duration,
    /// The most recent cause.
    pub cause: String,
}

impl LossTimes {
    /// Counts the time since `start`. Returns how much of it was not counted before.
    fn add(&mut self, start: Instant, cause: Option<&str>) -> Duration {
        self.add_until(start, Instant::now(), cause)
    }

    /// Counts the time from `start` to `end`. Returns how much of it was not counted before.
    fn add_until(&mut self, start: Instant, end: Instant, cause: Option<&str>) -> Duration {
        let from = self.counted_until.map_or(start, |counted| counted.max(start));
        let new = end.saturating_duration_since(from);
        self.total += new;
        self.loss_start.get_or_insert(from);
        self.counted_until = self.counted_until.max(Some(end));
        if let Some(why) = cause {
            why.clone_into(&mut self.cause);
        }
        new
    }

    /// Returns the time that waits in progress have lost and `total` does not contain.
    fn current_wait(&self) -> Duration {
        let since = self
            .current_waits
            .1
            .map(|since| self.counted_until.map_or(since, |until| until.max(since)));
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl LostTime {
    fn lock(&self) -> MutexGuard<'_, LossTimes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time lost so far, or `None` if no time was lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let state = self.lock();
        let total = state.total + state.current_wait();
        (!total.is_zero()).then(|| Loss {
            total,
            dropped: state.dropped,
            longest_attempt: state.longest_attempt,
            cause: state.cause.clone(),
        })
    }

    /// Returns the time that extends a wall limit: the time lost so far, including a wait in progress.
    /// Excludes the attempts that were dropped since the last complete response. A limit that cuts
    /// off an attempt stays reached.
    pub(crate) fn confirmed(&self) -> Duration {
        let state = self.lock();
        state.total.saturating_sub(state.dropped) + state.current_wait()
    }

    /// Returns the part of [`Self::confirmed`] in attempts, without the waits.
    pub(crate) fn confirmed_in_attempts(&self) -> Duration {
        let state = self.lock();
        state.total.saturating_sub(state.dropped + state.waits)
    }

    /// Returns when the current loss started, if one is in progress.
    pub(crate) fn current_loss_start(&self) -> Option<Instant> {
        self.lock().loss_start
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
        self.add_stated_queueing(start, start.elapsed());
    }

    /// Counts the time that a request was in the endpoint's queue, from `start` on. The response has
    /// arrived.
    pub(crate) fn add_stated_queueing(&self, start: Instant, time: Duration) {
        let mut state = self.lock();
        state.add_until(start, start + time, Some("the endpoint queued the request"));
        state.loss_start = None;
    }

    /// Counts the time until the guard is dropped as a wait for the next attempt.
    pub(crate) fn start_wait(&self) -> LostWaitGuard<'_> {
        let start = Instant::now();
        let mut state = self.lock();
        state.current_waits.0 += 1;
        state.current_waits.1.get_or_insert(start);
        LostWaitGuard { lost_time: self, start, cause: None }
    }

    /// Like [`Self::start_wait`], but for a wait that no failed attempt of this trial caused.
    pub(crate) fn start_wait_for(&self, cause: &'static str) -> LostWaitGuard<'_> {
        let mut guard = self.start_wait();
        guard.cause = Some(cause);
        guard
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
        self.lost_time.lock().add(self.start, Some(cause));
    }

    /// Ends an attempt with a response, or with a result that the endpoint did not cause.
    pub(crate) fn complete(mut self) {
        self.is_complete = true;
        let mut state = self.lost_time.lock();
        state.loss_start = None;
        state.dropped = Duration::ZERO;
        state.longest_attempt = state.longest_attempt.max(self.start.elapsed());
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
            let mut state = self.lost_time.lock();
            let new = state.add(since, Some(why));
            state.dropped += new;
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
        let mut state = self.lost_time.lock();
        state.current_waits.0 -= 1;
        if state.current_waits.0 == 0 {
            state.current_waits.1 = None;
        }
        if self.start.elapsed() >= MIN_WAIT {
            let new = state.add(self.start, self.cause);
            state.waits += new;
        }
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
        assert_eq!(lost.loss(), None);
        let attempt = lost.start_attempt(|| None);
        tokio::time::advance(second).await;
        attempt.fail("503 overloaded");
        let wait = lost.start_wait();
        tokio::time::advance(second).await;
        assert_eq!(lost.confirmed(), 2 * second, "a wait in progress counts");
        drop(wait);
        let loss = lost.loss().expect("a loss");
        assert_eq!((loss.total, loss.cause.as_str()), (2 * second, "503 overloaded"));
        assert_eq!((lost.confirmed_in_attempts(), loss.longest_attempt), (second, second));
        let attempt = lost.start_attempt(|| Some(Instant::now()));
        tokio::time::advance(second).await;
        let queued = tokio::time::Instant::now();
        tokio::time::advance(second).await;
        lost.add_queueing(queued);
        assert!(lost.current_loss_start().is_none(), "the response has started");
        tokio::time::advance(second).await;
        attempt.complete();
        assert_eq!((lost.confirmed(), lost.confirmed_in_attempts()), (3 * second, 2 * second));
        // Three overlapping attempts are dropped, one of them after its first byte.
        let silent = || lost.start_attempt(|| None);
        let (one, two, three) = (lost.start_attempt(|| Some(Instant::now())), silent(), silent());
        tokio::time::advance(second).await;
        drop((one, two, three));
        assert_eq!(lost.loss().map(|loss| loss.total), Some(4 * second));
        assert_eq!(lost.confirmed(), 3 * second, "a response may have been on its way");
        // The first piece arrived, and then only heartbeats.
        let first = Instant::now();
        let stalled = lost.start_attempt(move || Some(first));
        tokio::time::advance(10 * second).await;
        drop(stalled);
        let loss = lost.loss().expect("a loss");
        assert_eq!((loss.total, loss.dropped), (14 * second, 11 * second));
        let attempt = lost.start_attempt(|| None);
        attempt.complete();
        assert_eq!(lost.loss().expect("a loss").dropped, Duration::ZERO);
        assert_eq!(lost.confirmed(), 14 * second, "the endpoint responds now");
    }

    #[tokio::test(start_paused = true)]
    async fn stated_queueing_counts_only_once() {
        let (lost, second) = (LostTime::default(), Duration::from_secs(1));
        let start = Instant::now();
        tokio::time::advance(5 * second).await;
        lost.add_stated_queueing(start, 2 * second);
        assert_eq!(lost.confirmed_in_attempts(), 2 * second);
        assert!(lost.current_loss_start().is_none(), "the endpoint has responded");
        // Comments had shown a part of the same time.
        lost.add_stated_queueing(start + second, 2 * second);
        assert_eq!(lost.confirmed_in_attempts(), 3 * second);
        // The attempt fails after all.
        let attempt = lost.start_attempt(|| None);
        tokio::time::advance(4 * second).await;
        lost.add_stated_queueing(start + 5 * second, 3 * second);
        attempt.fail("no content");
        assert_eq!(lost.confirmed_in_attempts(), 7 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn overlapping_waits_count_once_and_short_waits_are_ignored() {
        let lost = LostTime::default();
        let second = Duration::from_secs(1);
        let first = lost.start_wait();
        tokio::time::advance(second).await;
        let second_wait = lost.start_wait_for("429");
        tokio::time::advance(second).await;
        drop(first);
        tokio::time::advance(second).await;
        assert_eq!(lost.confirmed(), 3 * second);
        drop(second_wait);
        let loss = lost.loss().expect("a loss");
        assert_eq!((loss.total, loss.cause.as_str()), (3 * second, "429"));
        let short = lost.start_wait_for("nothing");
        tokio::time::advance(Duration::from_millis(5)).await;
        drop(short);
        assert_eq!(lost.loss(), Some(loss));
    }
}
