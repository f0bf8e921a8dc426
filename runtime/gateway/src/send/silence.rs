//! Limits how long an endpoint may be silent, and reports silence to the user.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::time::{Instant, Sleep};

use super::attempt::{AttemptEnd, BrokenResponse};
use crate::{retry::seconds, sink::WaitNotice, trial::TrialGateway};

/// Measures how long the endpoint is silent, with one timer per response. A chunk does not reset
/// the timer, because this would cost more than processing the chunk. Instead, a timer that fires
/// too early is set again.
pub(super) struct SilenceTimer<'a> {
    trial: &'a TrialGateway,
    timer: Pin<Box<Sleep>>,
}

impl<'a> SilenceTimer<'a> {
    pub(super) fn new(trial: &'a TrialGateway) -> Self {
        let notice = seconds(trial.route().policy.notice_seconds);
        Self { trial, timer: Box::pin(tokio::time::sleep(notice)) }
    }

    /// Waits for the next chunk, for at most `limit`. Reports silence to the user at increasing
    /// intervals.
    pub(super) async fn wait_for_chunk<T>(
        &mut self,
        limit: Option<Duration>,
        future: impl Future<Output = Result<T, AttemptEnd>>,
    ) -> Result<T, AttemptEnd> {
        let (begun, route) = (Instant::now(), self.trial.route());
        let mut so_far = seconds(route.policy.notice_seconds);
        tokio::pin!(future);
        loop {
            let next = next_deadline(begun, limit, so_far);
            // A timer that was set for an earlier chunk fires too early, so set it again.
            if self.timer.is_elapsed() || self.timer.deadline() > next {
                self.timer.as_mut().reset(next);
            }
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = &mut self.timer => {}
            }
            let silent = begun.elapsed();
            if let Some(limit) = limit.filter(|limit| silent >= *limit) {
                return Err(AttemptEnd::Broken(BrokenResponse::from_silence(limit)));
            }
            if silent >= so_far {
                let model = route.model.name.clone();
                self.trial.sink().report_wait(WaitNotice::Silent { model, elapsed: so_far });
                so_far = so_far.saturating_mul(2);
            }
        }
    }
}

/// Returns when to report next or when the limit ends, whichever comes first.
fn next_deadline(start: Instant, limit: Option<Duration>, elapsed: Duration) -> Instant {
    // An upper bound of 30 years, which prevents an overflow if the configured time is huge.
    const NEVER: Duration = Duration::from_secs(86_400 * 365 * 30);
    start + limit.map_or(elapsed, |limit| limit.min(elapsed)).min(NEVER)
}
