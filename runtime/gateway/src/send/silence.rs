//! How long an endpoint may be silent, and what the user is told of it.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::time::{Instant, Sleep};

use super::{Broken, Ended};
use crate::{retry::seconds, sink::Waiting, trial::TrialGateway};

/// How long nothing has come. One timer for a whole answer: a piece that comes only moves the time that it counts
/// from, since a timer set anew for every piece costs more than the piece.
pub(super) struct Silence<'a> {
    trial: &'a TrialGateway,
    timer: Pin<Box<Sleep>>,
}

impl<'a> Silence<'a> {
    pub(super) fn new(trial: &'a TrialGateway) -> Self {
        let notice = seconds(trial.line().policy.notice_seconds);
        Self { trial, timer: Box::pin(tokio::time::sleep(notice)) }
    }

    /// Waits for what comes next, for `limit` at most, and tells the user at growing distances that nothing does.
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
            // One that was set for an earlier piece comes too early, and is set anew then.
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

/// When the user is told next, or the limit is over.
fn due(begun: Instant, limit: Option<Duration>, so_far: Duration) -> Instant {
    // As good as never, where a configuration names a time that no clock reaches.
    const NEVER: Duration = Duration::from_secs(86_400 * 365 * 30);
    begun + limit.map_or(so_far, |limit| limit.min(so_far)).min(NEVER)
}
