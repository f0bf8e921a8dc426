//! Responses that a client of the Responses API can continue by id.
//!
//! Endpoints with other APIs store nothing, so the gateway stores the conversation. If a client
//! sends `previous_response_id` instead of the conversation, the gateway sends the whole
//! conversation.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::{Map, Value, json};

/// The conversation up to each response, by the response's id.
#[derive(Debug, Default)]
pub(super) struct StoredResponses(Mutex<HashMap<String, Vec<Value>>>);

impl StoredResponses {
    /// Replaces `previous_response_id` with the conversation it refers to. An unknown id stays in
    /// the request, which is then rejected.
    pub(super) fn expand(&self, request: &mut Map<String, Value>) {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = request.get("previous_response_id").and_then(Value::as_str);
        let Some(before) = before.and_then(|id| stored.get(id)).cloned() else { return };
        request.shift_remove("previous_response_id");
        let mut items = before;
        items.extend(input_items(request.get("input")));
        request.insert("input".into(), items.into());
    }

    /// Stores a response. `input` is the input of the request that it answers.
    pub(super) fn store(&self, input: &[Value], response: &Value) {
        let Some(id) = response["id"].as_str() else { return };
        let mut items = input.to_vec();
        items.extend(response["output"].as_array().into_iter().flatten().cloned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), items);
    }
}

/// Returns the items of an input, which may be plain text.
pub(super) fn input_items(input: Option<&Value>) -> Vec<Value> {
    match input {
        Some(Value::String(text)) => {
            vec![json!({"type": "message", "role": "user", "content": text})]
        }
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

/// Returns the response object from the bytes that a client received: a body, or the last event of
/// a stream.
pub(super) fn extract_response(response_text: &str) -> Option<Value> {
    if let Ok(whole @ Value::Object(_)) = serde_json::from_str::<Value>(response_text) {
        return Some(whole);
    }
    let events = response_text.lines().rev().filter_map(|line| line.strip_prefix("data: "));
    let ends = |event: &Value| {
        matches!(event["type"].as_str(), Some("response.completed" | "response.incomplete"))
    };
    let event = events.filter_map(|data| serde_json::from_str::<Value>(data).ok()).find(ends);
    event.map(|mut event| event["response"].take())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{StoredResponses, extract_response, input_items};

    #[test]
    fn expand_continues_a_stored_response() {
        let stored = StoredResponses::default();
        let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
        let response = json!({"id": "resp_1", "output": [call]});
        let stream = format!(
            "event: x\ndata: {}\n\n",
            json!({"type": "response.completed", "response": response})
        );
        assert_eq!(extract_response(&stream).as_ref(), Some(&response));
        stored.store(&input_items(Some(&json!("go"))), &response);
        let result = json!({"type": "function_call_output", "call_id": "c", "output": "r"});
        let asked = json!({"previous_response_id": "resp_1", "input": [result]});
        let mut asked = asked.as_object().expect("an object").clone();
        stored.expand(&mut asked);
        let user = json!({"type": "message", "role": "user", "content": "go"});
        assert_eq!(json!(asked), json!({"input": [user, call, result]}));
        let unknown = json!({"previous_response_id": "resp_9", "input": []});
        let mut asked = unknown.as_object().expect("an object").clone();
        stored.expand(&mut asked);
        assert_eq!(json!(asked), unknown);
    }
}
