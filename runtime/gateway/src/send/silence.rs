//! How long an endpoint may be silent, and how this is reported to the user.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::time::{Instant, Sleep};

use super::{Broken, Ended};
use crate::{retry::seconds, sink::Waiting, trial::TrialGateway};

/// Measures silence with one timer per response. A piece only moves the start time, because
/// resetting a timer for every piece would cost more than the piece.
pub(super) struct Silence<'a> {
    trial: &'a TrialGateway,
    timer: Pin<Box<Sleep>>,
}

impl<'a> Silence<'a> {
    pub(super) fn new(trial: &'a TrialGateway) -> Self {
        let notice = seconds(trial.line().policy.notice_seconds);
        Self { trial, timer: Box::pin(tokio::time::sleep(notice)) }
    }

    /// Waits for the next piece, for at most `limit`. Reports silence to the user at increasing
    /// intervals.
    pub(super) async fn over<T>(
        &mut self,
        limit: Option<Duration>,
        work: impl Future<Output = Result<T, Ended>>,
    ) -> Result<T, Ended> {
        let (begun, line) = (Instant::now(), self.trial.line());
        let mut so_far = seconds(line.policy.notice_seconds);
        tokio::pin!(work);
        loop {
            let next = due(begun, limit, so_far);
            // A timer that was set for an earlier piece fires too early; set it again.
            if self.timer.is_elapsed() || self.timer.deadline() > next {
                self.timer.as_mut().reset(next);
            }
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = &mut self.timer => {}
            }
            let silent = begun.elapsed();
            if let Some(limit) = limit.filter(|limit| silent >= *limit) {
                return Err(Ended::Broken(Broken::silent(limit)));
            }
            if silent >= so_far {
                let model = line.model.name.clone();
                self.trial.sink().waiting(Waiting::Silent { model, so_far });
                so_far = so_far.saturating_mul(2);
            }
        }
    }
}

/// When to report next, or when the limit ends.
fn due(begun: Instant, limit: Option<Duration>, so_far: Duration) -> Instant {
    // Effectively never, for a configured time beyond any clock.
    const NEVER: Duration = Duration::from_secs(86_400 * 365 * 30);
    begun + limit.map_or(so_far, |limit| limit.min(so_far)).min(NEVER)
}
