//! The loop that handles a user's program in every protocol, and the conditions under which the
//! conversation ends early.

use async_trait::async_trait;
use proctor_scaffold_api::{Finish, Session, Traffic};
use proctor_types::{ExitCause, count_with_noun};
use tokio::time::{Instant, sleep_until};

use crate::{
    ending::{agent_exit, with_last_line},
    limits::Limits,
    own_sandbox::{EarlyEnd, IdleTimer},
};

/// A protocol, and the program that uses it.
#[async_trait]
pub(crate) trait Protocol: Send {
    /// An event from the program.
    type Event: Send;

    /// Waits for the next event. Cancel-safe.
    async fn next(&mut self) -> Result<Self::Event, EarlyEnd>;

    /// Handles an event. If the event ends the conversation, returns how the trial ended.
    async fn handle(
        &mut self,
        event: Self::Event,
        watch: &mut Watchdog,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, EarlyEnd>;

    /// Returns whether to notify the program as soon as the trial is over. Otherwise, the
    /// conversation ends with the program's next request.
    fn is_notified_of_trial_end(&self) -> bool {
        true
    }

    /// Ends the conversation after the trial is over: notifies the program and gives it time to
    /// exit.
    async fn shut_down(&mut self) -> Finish {
        agent_exit(ExitCause::Finished, "it was still running when the trial ended".into())
    }

    /// Returns whether something that the program started is still running. If so, a silent program
    /// does not count as idle.
    fn is_busy(&self) -> bool {
        false
    }

    /// Returns what was read from the program's stderr so far.
    fn stderr(&self) -> Vec<u8>;
}

/// Runs the conversation until the program exits, the trial is over, or the program is idle or
/// loops.
pub(crate) async fn run<P: Protocol>(
    protocol: &mut P,
    watch: &mut Watchdog,
    session: &mut dyn Session,
) -> Result<Finish, EarlyEnd> {
    let mut looked = Instant::now();
    loop {
        let is_told = protocol.is_notified_of_trial_end();
        // Don't restart the interval after each event: a program that sends only notifications must
        // count as idle.
        let look = looked + watch.idle_timer.check_interval();
        let event = tokio::select! {
            event = protocol.next() => event?,
            () = session.wait_for_end(), if is_told => return Ok(protocol.shut_down().await),
            () = sleep_until(look) => {
                looked = Instant::now();
                if protocol.is_busy() {
                    watch.note_activity();
                }
                match watch.idle_timer.check_idle(&session.traffic(), watch.limits) {
                    Some(Finish::Exited { cause, reason }) => {
                        let reason = with_last_line(reason, &protocol.stderr());
                        return Ok(Finish::Exited { cause, reason });
                    }
                    Some(end) => return Ok(end),
                    None => continue,
                }
            }
        };
        if let Some(end) = protocol.handle(event, watch, session).await? {
            return Ok(end);
        }
    }
}

/// Detects a program that is idle, loops, or writes invalid messages.
pub(crate) struct Watchdog {
    limits: &'static Limits,
    idle_timer: IdleTimer,
    invalid_line_count: u32,
    /// Number of consecutive requests that ended in an error.
    error_count: u32,
    /// Number of requests from the program since the model's last response.
    request_count: u32,
    /// Number of requests to the model endpoint so far.
    model_request_count: u64,
}

impl Watchdog {
    pub(crate) fn new(limits: &'static Limits, idle_seconds: f64) -> Self {
        Self {
            limits,
            idle_timer: IdleTimer::new(idle_seconds),
            invalid_line_count: 0,
            error_count: 0,
            request_count: 0,
            model_request_count: 0,
        }
    }

    /// Called when the program did something useful or something that it started has exited.
    pub(crate) fn note_activity(&mut self) {
        self.idle_timer.reset();
    }

    /// Called when the model has sent a response that did not go through the model endpoint.
    pub(crate) fn note_model_response(&mut self) {
        self.request_count = 0;
    }

    /// Counts a request from the program.
    pub(crate) fn count_request(&mut self, traffic: &Traffic) {
        if self.model_request_count != traffic.received_requests {
            self.model_request_count = traffic.received_requests;
            self.request_count = 0;
        }
        self.request_count += 1;
    }

    /// Counts consecutive requests that ended in an error. A success resets the count.
    pub(crate) fn record_response(&mut self, is_error: bool) {
        if is_error {
            self.error_count += 1;
        } else {
            self.error_count = 0;
            self.note_activity();
        }
    }

    /// If the program loops, returns how the trial ended. `noun` is what is counted, and `since` is
    /// when counting started.
    pub(crate) fn detect_loop(&self, noun: &str, since: &str) -> Option<Finish> {
        let why = if self.error_count >= self.limits.errors_in_a_row {
            format!("{} in a row ended in an error", count_with_noun(self.error_count, noun))
        } else if self.request_count >= self.limits.requests_without_answer {
            format!("it made {} since {since}", count_with_noun(self.request_count, noun))
        } else {
            return None;
        };
        Some(agent_exit(ExitCause::Loop, why))
    }

    /// Returns how the trial ended if the program wrote a line that is too long.
    pub(crate) fn finish_for_long_line(&self) -> Finish {
        let most = self.limits.line_bytes;
        agent_exit(ExitCause::Crashed, format!("it wrote a line of more than {most} bytes"))
    }

    /// Counts a line that is not a valid message. If there are too many of them, returns how the
    /// trial ended.
    pub(crate) fn count_invalid_line(&mut self, line: &[u8]) -> Option<Finish> {
        self.invalid_line_count += 1;
        if self.invalid_line_count < self.limits.wrong_lines {
            return None;
        }
        let lines = count_with_noun(self.invalid_line_count, "line");
        let shown: String =
            String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(80).collect();
        let why =
            format!("it wrote {lines} to standard output that are not messages, last: {shown}");
        Some(agent_exit(ExitCause::Crashed, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_reason(end: Option<Finish>) -> String {
        match end {
            Some(Finish::Exited { reason: why, .. }) => why,
            Some(Finish::Submitted) => "submitted".into(),
            None => String::new(),
        }
    }

    #[test]
    fn watch_counts_requests_since_the_last_model_request() {
        let limits = Limits::get().unwrap();
        let mut watch = Watchdog::new(limits, 600.0);
        let mut traffic = Traffic::default();
        for _ in 1..limits.requests_without_answer {
            watch.count_request(&traffic);
        }
        assert_eq!(exit_reason(watch.detect_loop("call", "then")), "");
        traffic.received_requests += 1;
        watch.count_request(&traffic);
        assert_eq!(watch.request_count, 1);
        for _ in 1..limits.requests_without_answer {
            watch.count_request(&traffic);
        }
        let told = format!("it made {} calls since then", limits.requests_without_answer);
        assert!(exit_reason(watch.detect_loop("call", "then")).ends_with(&told));
        watch.note_model_response();
        assert_eq!(exit_reason(watch.detect_loop("call", "then")), "");
    }

    #[test]
    fn watch_counts_consecutive_errors_and_total_invalid_lines() {
        let limits = Limits::get().unwrap();
        let mut watch = Watchdog::new(limits, 600.0);
        for _ in 1..limits.errors_in_a_row {
            watch.record_response(true);
        }
        watch.record_response(false);
        watch.record_response(true);
        assert_eq!(exit_reason(watch.detect_loop("request", "then")), "");
        for _ in 1..limits.errors_in_a_row {
            watch.record_response(true);
        }
        assert!(
            exit_reason(watch.detect_loop("request", "then"))
                .contains("in a row ended in an error")
        );
        for _ in 1..limits.wrong_lines {
            assert!(watch.count_invalid_line(b"x").is_none());
        }
        assert!(exit_reason(watch.count_invalid_line(b"a\x1bb")).ends_with("last: ab"));
    }
}
