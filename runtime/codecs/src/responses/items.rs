//! The items of a response, and the response object around them.

use proctor_types::Usage;
use serde_json::{Map, Value, json};

use crate::neutral::{Item, StopReason};

/// Request fields that the response repeats.
const ECHOED_FIELDS: [&str; 9] = [
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "max_output_tokens",
    "text",
    "metadata",
];

/// Writes an item. `number` determines its id.
pub(super) fn item(item: &Item, number: usize, status: &str) -> Value {
    let id = item_id(item, number);
    match item {
        Item::Text(text) => json!({
            "type": "message", "id": id, "role": "assistant", "status": status,
            "content": [text_part(text)],
        }),
        Item::Refusal(text) => json!({
            "type": "message", "id": id, "role": "assistant", "status": status,
            "content": [{"type": "refusal", "refusal": text}],
        }),
        Item::Reasoning(thought) => {
            let summary = match thought.text.as_str() {
                "" => json!([]),
                text => json!([{"type": "summary_text", "text": text}]),
            };
            json!({"type": "reasoning", "id": id, "summary": summary,
                "encrypted_content": thought.signature})
        }
        Item::Call(call) => json!({
            "type": "function_call", "id": id, "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": status,
        }),
    }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(super) fn item_id(item: &Item, number: usize) -> String {
    let kind = match item {
        Item::Text(_) | Item::Refusal(_) => "msg",
        Item::Reasoning(_) => "rs",
        Item::Call(_) => "fc",
    };
    format!("{kind}_{number}")
}

/// Writes the object around the items. If `stop` is `None`, the response continues.
pub(super) fn response_object(
    request: &Map<String, Value>,
    id: &str,
    model: &str,
    output: Vec<Value>,
    stop: Option<&StopReason>,
    usage: Option<&Usage>,
) -> Value {
    let (status, incomplete) = match stop {
        None => ("in_progress", Value::Null),
        Some(StopReason::Length | StopReason::ContextWindow) => {
            ("incomplete", json!({"reason": "max_output_tokens"}))
        }
        Some(StopReason::Filter) => ("incomplete", json!({"reason": "content_filter"})),
        Some(_) => ("completed", Value::Null),
    };
    let usage = usage.map(|usage| {
        json!({
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        })
    });
    let mut response = json!({
        "id": id,
        "object": "response",
        "created_at": crate::unix_seconds(),
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "model": model,
        "output": output,
        "usage": usage,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "metadata": {},
    });
    for name in ECHOED_FIELDS {
        if let Some(value) = request.get(name).filter(|value| !value.is_null()) {
            response[name] = value.clone();
        }
    }
    response
}
