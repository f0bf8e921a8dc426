//! Reads from the journal how long a try has run and how it was interrupted. A try that ended in a
//! fault has no outcome that contains these values.

use proctor_types::{Event, Interruptions};
use serde_json::Value;

use crate::resume_point::RESTART_REASON_KEY;

/// How long a try has run, and its interruptions.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TryHistory {
    /// Seconds since the agent started, without the time between a fault and the next resume.
    pub(crate) wall_seconds: f64,
    pub(crate) interruptions: Interruptions,
}

impl TryHistory {
    /// Reads the history from the events of a journal, each with its time in seconds.
    pub(crate) fn from_events<'a>(events: impl Iterator<Item = (f64, &'a Event)>) -> Self {
        let mut interruptions = Interruptions::default();
        let mut started_at = None;
        let (mut last_seconds, mut idle_seconds) = (0.0, 0.0);
        let mut is_new_fork = false;
        for (seconds, event) in events {
            match event {
                Event::SetupFinished { .. } => {
                    (started_at, idle_seconds) = (Some(seconds), 0.0);
                }
                // The interruptions so far are those of the trial that was forked.
                Event::TrialForked { .. } => {
                    (interruptions, is_new_fork) = (Interruptions::default(), true);
                }
                Event::TrialResumed { whole_steps, .. } => {
                    // A fork also starts with this event.
                    if !std::mem::take(&mut is_new_fork) {
                        interruptions.resumed_after.push(*whole_steps);
                    }
                    idle_seconds += seconds - last_seconds;
                }
                Event::Noted { note } => {
                    if let Some(why) = note.get(RESTART_REASON_KEY).and_then(Value::as_str) {
                        interruptions.started_again = Some(why.to_owned());
                    }
                }
                _ => {}
            }
            last_seconds = seconds;
        }
        let wall_seconds =
            started_at.map_or(0.0, |start| (last_seconds - start - idle_seconds).max(0.0));
        Self { wall_seconds, interruptions }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn setup() -> Event {
        Event::SetupFinished {
            backend: "native".into(),
            start_ms: 1.0,
            base_snapshot: String::new(),
            not_enforced: Vec::new(),
            environment: None,
        }
    }

    fn resumed(whole_steps: u64) -> Event {
        Event::TrialResumed { snapshot: String::new(), whole_steps, stands_to: u64::MAX }
    }

    fn note(key: &str) -> Event {
        Event::Noted { note: Map::from_iter([(key.to_owned(), Value::from("a server ran"))]) }
    }

    fn history(events: &[(f64, Event)]) -> TryHistory {
        TryHistory::from_events(events.iter().map(|(seconds, event)| (*seconds, event)))
    }

    #[test]
    fn history_has_resumes_and_working_time() {
        let events = [
            (0.0, note("other")),
            (2.0, setup()),
            (5.0, note("other")),
            (9.0, resumed(1)),
            (10.0, note("other")),
            (20.0, resumed(1)),
            (21.5, note("other")),
        ];
        let history = history(&events);
        assert_eq!(history.interruptions.resumed_after, [1, 1]);
        assert_eq!(history.interruptions.started_again, None);
        // 3 s until the first resume, then 1 s and 1.5 s.
        assert_eq!(history.wall_seconds, 5.5);
    }

    #[test]
    fn try_without_agent_has_no_time() {
        let history = history(&[(0.0, note(RESTART_REASON_KEY)), (7.0, note("other"))]);
        assert_eq!(history.wall_seconds, 0.0);
        assert_eq!(history.interruptions.started_again.as_deref(), Some("a server ran"));
    }
}
