//! Tracks the server's requests and responses, and the tool results that the client has returned.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use proctor_types::{Event, ModelResponse, ToolCall, Traffic};
use serde_json::Value;

use crate::{
    RequestError,
    codec::{self, Part},
};

#[derive(Debug, Default)]
pub(super) struct TrafficTracker(Mutex<TrafficCounts>);

#[derive(Debug, Default)]
struct TrafficCounts {
    requests: u64,
    rejected_requests: u64,
    last_response: Option<ModelResponse>,
    last_response_at: Option<Instant>,
    /// How the last main request was rejected or lost.
    last_rejection: Option<RequestError>,
    /// Calls whose results are recorded.
    recorded_call_ids: BTreeSet<String>,
}

/// A tool result in a request, with its call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolResult {
    pub call: ToolCall,
    pub shown_text: String,
    /// Time since the response that contained the call. Only the client knows the exact duration.
    pub duration: Duration,
}

impl TrafficTracker {
    fn state(&self) -> MutexGuard<'_, TrafficCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_request(&self) {
        self.state().requests += 1;
    }

    pub(super) fn count_rejection(&self, rejection: Option<&RequestError>) {
        let mut state = self.state();
        state.rejected_requests += 1;
        if let Some(error) = rejection {
            state.last_rejection = Some(error.clone());
        }
    }

    pub(super) fn note_lost_response(&self, error: RequestError) {
        self.state().last_rejection = Some(error);
    }

    /// Counts a response. `is_main` says whether the response belongs to the main conversation and
    /// was delivered. The last response that the agent itself received determines how the agent
    /// ended. A sub-agent's response (`is_from_sub_agent`) is used only if the agent itself has
    /// received none.
    pub(super) fn count_response(
        &self,
        response: &ModelResponse,
        is_main: bool,
        is_from_sub_agent: bool,
    ) {
        let mut state = self.state();
        state.rejected_requests = 0;
        if is_main {
            if !is_from_sub_agent || state.last_response.is_none() {
                state.last_response = Some(response.clone());
            }
            state.last_response_at = Some(Instant::now());
            state.last_rejection = None;
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        let state = self.state();
        let (requests, refused) = (state.requests, state.rejected_requests);
        Traffic {
            requests_in_flight: 0,
            received_requests: requests,
            refused_requests: refused,
            last_response: state.last_response.clone(),
        }
    }

    pub(super) fn last_rejection(&self) -> Option<RequestError> {
        self.state().last_rejection.clone()
    }

    /// Returns the results that no earlier request contained, in order. Each request repeats the
    /// whole conversation, so calls are identified by id. A result is skipped if the request does
    /// not contain its call.
    pub(super) fn new_tool_results(&self, request: &codec::Request) -> Vec<ToolResult> {
        let mut state = self.state();
        let took = state.last_response_at.map_or(Duration::ZERO, |at| at.elapsed());
        let parts = || request.turns.iter().flat_map(|turn| &turn.parts);
        let mut found = Vec::new();
        for part in parts() {
            let Part::Result { id, content, is_error: failed } = part else { continue };
            let call = parts().find_map(|part| match part {
                Part::Call(call) if call.id == *id => Some(call),
                _ => None,
            });
            let Some(call) = call else { continue };
            if !state.recorded_call_ids.insert(id.clone()) {
                continue;
            }
            let shown = if *failed { format!("Error: {content}") } else { content.clone() };
            found.push(ToolResult { call: call.clone(), shown_text: shown, duration: took });
        }
        found
    }
}

impl ToolResult {
    /// Returns the events that a built-in loop would record for this call and its result. Only the
    /// client knows a call's exit status and exact duration. Therefore, the exit status is missing,
    /// and all calls in a response get the same duration.
    pub(super) fn events(self) -> [Event; 2] {
        let Self { call: ToolCall { id, name, arguments }, shown_text: shown, duration: took } =
            self;
        let parsed = serde_json::from_str::<Value>(&arguments);
        let malformed = !matches!(parsed, Ok(Value::Object(_))) && !arguments.is_empty();
        let arguments = parsed.unwrap_or_else(|_| arguments.into());
        let called = Event::ToolCalled { call_id: id.clone(), name: name.clone(), arguments };
        let returned = Event::ToolReturned {
            edited: None,
            call_id: id,
            name,
            shown,
            full: None,
            exit_status: None,
            seconds: took.as_secs_f64(),
            malformed,
        };
        [called, returned]
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::Event;
    use serde_json::json;

    use super::TrafficTracker;
    use crate::codec::{self, Losses};

    /// Returns a conversation in each format, with two parallel calls and their results.
    fn conversations() -> Vec<(proctor_types::Api, serde_json::Value)> {
        use proctor_types::Api::{Chat, Gemini, Messages, Responses};
        let call = |id: &str, text: &str| {
            json!({"id": id, "type": "function",
                   "function": {"name": "shell", "arguments": text}})
        };
        let chat = json!({"messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null,
             "tool_calls": [call("a", "{\"command\":\"ls\"}"), call("b", "{\"command\":\"pwd\"}")]},
            {"role": "tool", "tool_call_id": "a", "content": "x"},
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "/y"}]},
        ]});
        let function = |id: &str, text: &str| json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": text});
        let output = |id: &str, text: &str| json!({"type": "function_call_output", "call_id": id, "output": text});
        let responses = json!({"input": [
            {"type": "message", "role": "user", "content": "go"},
            function("a", "{\"command\":\"ls\"}"), function("b", "{\"command\":\"pwd\"}"),
            output("a", "x"), output("b", "/y"),
        ]});
        let used = |id: &str, line: &str| json!({"type": "tool_use", "id": id, "name": "shell", "input": {"command": line}});
        let result = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
        let messages = json!({"max_tokens": 9, "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [used("a", "ls"), used("b", "pwd")]},
            {"role": "user", "content": [result("a", "x"), result("b", "/y")]},
        ]});
        let called =
            |line: &str| json!({"functionCall": {"name": "shell", "args": {"command": line}}});
        let came = |text: &str| json!({"functionResponse": {"name": "shell", "response": {"output": text}}});
        let gemini = json!({"contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [called("ls"), called("pwd")]},
            {"role": "user", "parts": [came("x"), came("/y")]},
        ]});
        vec![(Chat, chat), (Responses, responses), (Messages, messages), (Gemini, gemini)]
    }

    #[test]
    fn new_tool_results_reports_each_result_once_in_every_format() {
        for (api, body) in conversations() {
            let tracker = TrafficTracker::default();
            let body = body.as_object().expect("an object");
            let request =
                codec::read_request(api, body, &mut Losses::default()).expect("a request");
            let returned = tracker.new_tool_results(&request);
            let events: Vec<_> = returned.into_iter().flat_map(|one| one.events()).collect();
            let lines: Vec<_> = events
                .iter()
                .map(|event| match event {
                    Event::ToolCalled { name, arguments, .. } => {
                        format!("{name} {}", arguments["command"])
                    }
                    Event::ToolReturned { shown, malformed: false, .. } => shown.clone(),
                    other => format!("{other:?}"),
                })
                .collect();
            assert_eq!(lines.len(), 4, "{api}: {lines:?}");
            assert_eq!((lines[0].as_str(), lines[2].as_str()), ("shell \"ls\"", "shell \"pwd\""));
            assert!(lines[1].contains('x') && lines[3].contains("/y"), "{api}: {lines:?}");
            assert_eq!(
                tracker.new_tool_results(&request),
                [],
                "{api}: the next request repeats them"
            );
        }
    }
}
