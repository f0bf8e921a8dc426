//! The attempts of one request, and the waits between them.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    RequestError, TrialGateway, WaitNotice,
    attempt_failure::{AttemptFailure, FailureKind},
    first_response_gate::{AttemptRound, CallPermit},
    retry::seconds,
};

/// The attempts that one request has made so far.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    own_attempts: AttemptRound,
    /// When the first attempt failed.
    first_failure_at: Option<Instant>,
    /// How long to wait before the next attempt.
    pub pause: Duration,
}

impl Attempts {
    /// Returns the number of the next attempt, counted from 1.
    pub(crate) fn next_number(&self) -> u32 {
        self.own_attempts.failed_attempts + 1
    }
}

impl TrialGateway {
    /// Waits before the next attempt, or fails if the policy allows no further attempt.
    ///
    /// Until the model has responded for the first time, requests call it one at a time. The failed
    /// attempts of all requests that have held the [`CallPermit`] then count as one series.
    pub(crate) async fn wait_for_retry(
        &self,
        attempts: &mut Attempts,
        permit: Option<&CallPermit>,
        failure: &AttemptFailure,
    ) -> Result<(), RequestError> {
        let policy = &self.route().policy;
        let since = *attempts.first_failure_at.get_or_insert_with(Instant::now);
        let own = attempts.own_attempts.add_failure(failure.kind);
        let round =
            permit.map_or(own, |turn| turn.update_round(|round| round.add_failure(failure.kind)));
        let responds = matches!(
            failure.kind,
            FailureKind::Endpoint
                | FailureKind::Empty
                | FailureKind::Filtered
                | FailureKind::Corrupted
                | FailureKind::OutputCapped
        );
        let known =
            self.note_attempt(responds) || self.route().halts.has_responded(&self.route().model);
        let most = match failure.kind {
            _ if round.silent_attempts >= policy.silent_attempts => 0,
            FailureKind::Empty | FailureKind::Corrupted => {
                policy.empty_attempts.min(policy.attempts)
            }
            FailureKind::Unreachable | FailureKind::NotAModelApi if !known => {
                policy.connect_attempts.min(policy.attempts)
            }
            _ => policy.attempts,
        };
        if round.failed_attempts >= most {
            return Err(self.give_up(round, since, failure, "").into());
        }
        attempts.pause = policy.pause(round.failed_attempts, failure.retry_after);
        if round.wait_time + attempts.pause > seconds(policy.total_seconds) {
            let next = format!("; the next wait would be {:.0} s", attempts.pause.as_secs_f64());
            return Err(self.give_up(round, since, failure, &next).into());
        }
        let notice = WaitNotice::BackOff {
            attempt: round.failed_attempts,
            max_attempts: most,
            reason: self.route().endpoint.redact_text(&failure.short_reason),
            pause: attempts.pause,
        };
        self.wait_before_attempt(attempts.pause, notice).await?;
        let waited = |round: &mut AttemptRound| {
            round.wait_time += attempts.pause;
            *round
        };
        waited(&mut attempts.own_attempts);
        permit.map(|turn| turn.update_round(waited));
        Ok(())
    }
}
