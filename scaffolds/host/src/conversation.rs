//! The loop that handles a user's program in every protocol, and the conditions under which the
//! conversation ends early.

use async_trait::async_trait;
use proctor_scaffold_api::{Finish, Session, Traffic};
use proctor_types::{ExitCause, plural};
use tokio::time::{Instant, sleep_until};

use crate::{
    ending::{agent_exited, with_last_line},
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
        watch: &mut Watch,
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
        agent_exited(ExitCause::Finished, "the trial had ended".into())
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
    watch: &mut Watch,
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
                    Some(Finish::Exited { cause, why }) => {
                        let why = with_last_line(why, &protocol.stderr());
                        return Ok(Finish::Exited { cause, why });
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
pub(crate) struct Watch {
    limits: &'static Limits,
    idle_timer: IdleTimer,
    wrong_lines: u32,
    /// Number of consecutive requests that ended in an error.
    errors: u32,
    /// Number of requests from the program since the model's last response.
    requests: u32,
    /// Number of requests to the model endpoint so far.
    model_requests: u64,
}

impl Watch {
    pub(crate) fn new(limits: &'static Limits, idle_seconds: f64) -> Self {
        Self {
            limits,
            idle_timer: IdleTimer::new(idle_seconds),
            wrong_lines: 0,
            errors: 0,
            requests: 0,
            model_requests: 0,
        }
    }

    /// Called when the program did something useful or something that it started has exited.
    pub(crate) fn note_activity(&mut self) {
        self.idle_timer.reset();
    }

    /// Called when the model has sent a response that did not go through the model endpoint.
    pub(crate) fn note_model_response(&mut self) {
        self.requests = 0;
    }

    /// Counts a request from the program.
    pub(crate) fn count_request(&mut self, traffic: &Traffic) {
        if self.model_requests != traffic.requests {
            self.model_requests = traffic.requests;
            self.requests = 0;
        }
        self.requests += 1;
    }

    /// Counts consecutive requests that ended in an error. A success resets the count.
    pub(crate) fn record_response(&mut self, is_error: bool) {
        if is_error {
            self.errors += 1;
        } else {
            self.errors = 0;
            self.note_activity();
        }
    }

    /// If the program loops, returns how the trial ended. `noun` is what is counted, and `since` is
    /// when counting started.
    pub(crate) fn detect_loop(&self, noun: &str, since: &str) -> Option<Finish> {
        let why = if self.errors >= self.limits.errors_in_a_row {
            format!("{} in a row ended in an error", plural(self.errors, noun))
        } else if self.requests >= self.limits.requests_without_answer {
            format!("it made {} since {since}", plural(self.requests, noun))
        } else {
            return None;
        };
        Some(agent_exited(ExitCause::Loop, why))
    }

    /// Returns how the trial ended if the program wrote a line that is too long.
    pub(crate) fn finish_for_long_line(&self) -> Finish {
        let most = self.limits.line_bytes;
        agent_exited(ExitCause::Crashed, format!("it wrote a line of more than {most} bytes"))
    }

    /// Counts a line that is not a valid message. If there are too many of them, returns how the
    /// trial ended.
    pub(crate) fn count_invalid_line(&mut self, line: &[u8]) -> Option<Finish> {
        self.wrong_lines += 1;
        if self.wrong_lines < self.limits.wrong_lines {
            return None;
        }
        let lines = plural(self.wrong_lines, "line");
        let shown: String =
            String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).take(80).collect();
        let why =
            format!("it wrote {lines} to standard output that are not messages, last: {shown}");
        Some(agent_exited(ExitCause::Crashed, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(end: Option<Finish>) -> String {
        match end {
            Some(Finish::Exited { why, .. }) => why,
            Some(Finish::Submitted) => "submitted".into(),
            None => String::new(),
        }
    }

    #[test]
    fn watch_counts_requests_since_the_last_model_request() {
        let limits = Limits::get().unwrap();
        let mut watch = Watch::new(limits, 600.0);
        let mut traffic = Traffic::default();
        for _ in 1..limits.requests_without_answer {
            watch.count_request(&traffic);
        }
        assert_eq!(why(watch.detect_loop("call", "then")), "");
        traffic.requests += 1;
        watch.count_request(&traffic);
        assert_eq!(watch.requests, 1);
        for _ in 1..limits.requests_without_answer {
            watch.count_request(&traffic);
        }
        let told = format!("it made {} calls since then", limits.requests_without_answer);
        assert!(why(watch.detect_loop("call", "then")).ends_with(&told));
        watch.note_model_response();
        assert_eq!(why(watch.detect_loop("call", "then")), "");
    }

    #[test]
    fn watch_counts_consecutive_errors_and_total_invalid_lines() {
        let limits = Limits::get().unwrap();
        let mut watch = Watch::new(limits, 600.0);
        for _ in 1..limits.errors_in_a_row {
            watch.record_response(true);
        }
        watch.record_response(false);
        watch.record_response(true);
        assert_eq!(why(watch.detect_loop("request", "then")), "");
        for _ in 1..limits.errors_in_a_row {
            watch.record_response(true);
        }
        assert!(why(watch.detect_loop("request", "then")).contains("in a row ended in an error"));
        for _ in 1..limits.wrong_lines {
            assert!(watch.count_invalid_line(b"x").is_none());
        }
        assert!(why(watch.count_invalid_line(b"a\x1bb")).ends_with("last: ab"));
    }
}
