//! The loop that handles a user's program for every protocol, and the conditions that end the
//! conversation early.

use async_trait::async_trait;
use proctor_scaffold_api::{Finish, Session, Traffic};
use proctor_types::{ExitCause, plural};
use tokio::time::{Instant, sleep_until};

use crate::{
    ending::{agent_exited, with_last_line},
    limits::Limits,
    own_sandbox::{EarlyEnd, IdleTimer},
};

/// A protocol and the program that speaks it.
#[async_trait]
pub(crate) trait Protocol: Send {
    /// An event from the program.
    type Event: Send;

    /// Waits for the next event. Cancel-safe.
    async fn next(&mut self) -> Result<Self::Event, EarlyEnd>;

    /// Handles an event. Returns a value if the event ends the conversation.
    async fn handle(
        &mut self,
        event: Self::Event,
        watch: &mut Watch,
        session: &mut dyn Session,
    ) -> Result<Option<Finish>, EarlyEnd>;

    /// Returns whether the program is notified as soon as the trial is over. Otherwise the
    /// conversation ends with its next request.
    fn is_notified_of_trial_end(&self) -> bool {
        true
    }

    /// Ends the conversation when the trial is over: notifies the program and gives it time to
    /// exit.
    async fn shut_down(&mut self) -> Finish {
        agent_exited(ExitCause::Finished, "the trial had ended".into())
    }

    /// Returns whether something started by the program is running, in which case silence does not
    /// mean idleness.
    fn is_busy(&self) -> bool {
        false
    }

    /// Returns the program's stderr output so far.
    fn stderr(&self) -> Vec<u8>;
}

/// Runs the conversation until the program exits, the trial is over, or the program is idle or
/// looping.
pub(crate) async fn run<P: Protocol>(
    protocol: &mut P,
    watch: &mut Watch,
    session: &mut dyn Session,
) -> Result<Finish, EarlyEnd> {
    let mut looked = Instant::now();
    loop {
        let is_told = protocol.is_notified_of_trial_end();
        // Use a fixed point in time, so that a program that only sends notifications counts as idle
        // too.
        let look = looked + watch.quiet.check_interval();
        let event = tokio::select! {
            event = protocol.next() => event?,
            () = session.wait_for_end(), if is_told => return Ok(protocol.shut_down().await),
            () = sleep_until(look) => {
                looked = Instant::now();
                if protocol.is_busy() {
                    watch.note_activity();
                }
                match watch.quiet.check_idle(&session.traffic(), watch.limits) {
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
    quiet: IdleTimer,
    wrong_lines: u32,
    /// Number of consecutive error responses.
    errors: u32,
    /// Number of the program's requests since the model's last response.
    requests: u32,
    /// Number of requests to the model endpoint so far.
    model_requests: u64,
}

impl Watch {
    pub(crate) fn new(limits: &'static Limits, idle_seconds: f64) -> Self {
        Self {
            limits,
            quiet: IdleTimer::new(idle_seconds),
            wrong_lines: 0,
            errors: 0,
            requests: 0,
            model_requests: 0,
        }
    }

    /// Notes that the program did something useful or that something it started has exited.
    pub(crate) fn note_activity(&mut self) {
        self.quiet.reset();
    }

    /// Notes a model response that did not come through the model endpoint.
    pub(crate) fn note_model_response(&mut self) {
        self.requests = 0;
    }

    /// Counts a request of the program.
    pub(crate) fn count_request(&mut self, traffic: &Traffic) {
        if self.model_requests != traffic.requests {
            self.model_requests = traffic.requests;
            self.requests = 0;
        }
        self.requests += 1;
    }

    /// Counts consecutive error responses. A success resets the count.
    pub(crate) fn record_response(&mut self, is_error: bool) {
        if is_error {
            self.errors += 1;
        } else {
            self.errors = 0;
            self.note_activity();
        }
    }

    /// Returns the ending of a program that loops. `noun` names what is counted, and `since` names
    /// the event at which counting started.
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

    /// Returns the ending of a program that wrote a line over the limit.
    pub(crate) fn finish_for_long_line(&self) -> Finish {
        let most = self.limits.line_bytes;
        agent_exited(ExitCause::Crashed, format!("it wrote a line of more than {most} bytes"))
    }

    /// Counts a line that is not a valid message. Returns the ending if there are too many.
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
