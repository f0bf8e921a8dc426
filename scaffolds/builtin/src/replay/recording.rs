use std::path::Path;

use proctor_scaffold_api::Stop;
use proctor_types::{Envelope, Event, Fault, FaultLayer, ToolCall, remove_discarded_events};
use serde_json::Value;

/// The parts of a trajectory that are needed to re-run it, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Recording {
    pub(super) actions: Vec<RecordedAction>,
    /// The name of the recorded ending; `None` if the trial did not end.
    pub(super) ending: Option<String>,
    /// Number of lines that are not events, not counting an incomplete last line.
    pub(super) unreadable_lines: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum RecordedAction {
    /// The model responded, which starts a new step.
    Response,
    Call(RecordedCall),
}

/// A recorded call, with its result if one was recorded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedCall {
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    pub(super) shown_output: Option<String>,
    pub(super) exit_status: Option<i32>,
    pub(super) is_malformed: bool,
}

impl RecordedCall {
    /// Returns the call as the model wrote it. If the arguments are not JSON, the record contains
    /// them as a string.
    pub(super) fn to_tool_call(&self) -> ToolCall {
        let arguments = match &self.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        ToolCall { id: self.call_id.clone(), name: self.name.clone(), arguments }
    }
}

impl Recording {
    /// Reads a trajectory file.
    ///
    /// # Errors
    /// Returns a fault if the file cannot be read or contains no events.
    pub(super) async fn read(path: &Path) -> Result<Self, Stop> {
        let fault = |what: String| {
            let what = format!("replay of {}: {what}", path.display());
            Stop::Fault(
                Fault::new(FaultLayer::Record, what).hint("pass the path of a `trajectory.jsonl`"),
            )
        };
        let bytes = tokio::fs::read(path).await.map_err(|error| fault(error.to_string()))?;
        Self::parse(&bytes).ok_or_else(|| fault("the file has no events".into()))
    }

    /// Parses the events of the last try. Skips kinds of events that only later versions know,
    /// drops an incomplete last line, and counts other lines that cannot be parsed. Does not verify
    /// checksums, which is up to the record crate.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.ends_with(b"\n");
        let lines: Vec<_> = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .collect();
        let mut recording = Self::default();
        let mut events: Vec<Envelope> = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            match serde_json::from_slice(line) {
                Ok(envelope) => events.push(envelope),
                Err(_) if index + 1 == lines.len() && !whole => {}
                Err(_) => recording.unreadable_lines += 1,
            }
        }
        let last = events.iter().map(|envelope| envelope.try_number).max()?;
        events.retain(|envelope| envelope.try_number == last);
        for envelope in remove_discarded_events(events) {
            recording.add_event(envelope.event);
        }
        Some(recording)
    }

    fn add_event(&mut self, event: Event) {
        match event {
            Event::ModelAnswered { .. } => self.actions.push(RecordedAction::Response),
            Event::ToolCalled { call_id, name, arguments } => {
                self.actions.push(RecordedAction::Call(RecordedCall {
                    call_id,
                    name,
                    arguments,
                    shown_output: None,
                    exit_status: None,
                    is_malformed: false,
                }));
            }
            Event::ToolReturned { call_id, shown, exit_status, malformed, .. } => {
                // Compare only with the last call: models choose the ids, and some use the same id
                // again.
                if let Some(RecordedAction::Call(called)) = self.actions.last_mut()
                    && called.call_id == call_id
                {
                    called.shown_output = Some(shown);
                    called.exit_status = exit_status;
                    called.is_malformed = malformed;
                }
            }
            Event::TrialEnded { outcome, .. } => self.ending = Some(outcome.ending.name()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64, try_number: u32, event: &str) -> String {
        format!(
            r#"{{"v":1,"seq":{seq},"try":{try_number},"step":0,"t_mono":0.5,"t_wall":1.0,"sum":"x",{event}}}"#
        )
    }

    #[test]
    fn recording_reads_the_last_try_and_skips_unknown_kinds() {
        let call = |id: &str| {
            format!(
                r#""kind":"tool_called","call_id":"{id}","name":"shell","arguments":{{"command":"ls"}}"#
            )
        };
        let returned = r#""kind":"tool_returned","call_id":"b","name":"shell","shown":"x","full":null,"exit_status":0,"seconds":0.1,"malformed":false"#;
        let answer = r#""kind":"model_answered","answer":{"content":"","tool_calls":[],"extra":{},"finish_reason":null,"refused":false,"usage":{"input":1,"output":1},"cost_usd":null}"#;
        let text = [
            line(1, 1, &call("a")),
            line(1, 2, answer),
            line(2, 2, r#""kind":"moon_rose","phase":"full""#),
            line(3, 2, &call("b")),
            "not an event".to_owned(),
            line(4, 2, returned),
            r#"{"v":1,"seq":5,"#.to_owned(),
        ]
        .join("\n");
        let recording = Recording::parse(text.as_bytes()).unwrap();
        assert_eq!(recording.unreadable_lines, 1);
        assert_eq!(recording.ending, None);
        let [RecordedAction::Response, RecordedAction::Call(called)] = recording.actions.as_slice()
        else {
            panic!("{recording:?}");
        };
        assert_eq!((called.call_id.as_str(), called.shown_output.as_deref()), ("b", Some("x")));
        assert_eq!(called.to_tool_call().arguments, r#"{"command":"ls"}"#);
        assert_eq!(Recording::parse(b""), None);
    }
}
