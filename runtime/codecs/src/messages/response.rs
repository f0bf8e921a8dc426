use proctor_types::Usage;
use serde_json::{Map, Value, json};

use crate::{
    neutral::{CollectedResponse, Delta, Item, StopReason},
    read_token_count,
    stop::StopClass,
};

pub fn read_response(body: &Value) -> Result<Vec<Delta>, String> {
    if body["type"] == "error" || body.get("error").is_some_and(|error| !error.is_null()) {
        return Err(format!("error in a response with status 200: {}", body["error"]));
    }
    reject_aborted(body)?;
    let content = body["content"].as_array().ok_or("no content")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut deltas = vec![Delta::Started { model: text(&body["model"]) }];
    let mut index = 0;
    for block in content {
        match block["type"].as_str().unwrap_or_default() {
            "text" => deltas.push(Delta::Text(text(&block["text"]))),
            "thinking" => {
                deltas.push(Delta::Reasoning(text(&block["thinking"])));
                let signature = text(&block["signature"]);
                if !signature.is_empty() {
                    deltas.push(Delta::Signature(signature));
                }
            }
            "tool_use" => {
                let (id, name) = (text(&block["id"]), text(&block["name"]));
                deltas.push(Delta::Call { index, id, name });
                deltas.push(Delta::Arguments { index, text: arguments_text(&block["input"]) });
                index += 1;
            }
            _ => {}
        }
    }
    deltas.push(Delta::Stopped(read_stop_reason(body)));
    deltas.extend(usage(body).map(Delta::Usage));
    Ok(deltas)
}

/// Returns a call's arguments as text. Some gateways send the object as text, or null if there are
/// no arguments.
pub(super) fn arguments_text(input: &Value) -> String {
    match input {
        Value::Null => "{}".to_owned(),
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Converts a call's input to a JSON object, because requests accept nothing else. Arguments that
/// are not valid JSON are wrapped in a field, as in the other codecs.
pub(super) fn repair_input(block: &mut Value) {
    if block.get("input").is_some_and(|input| !input.is_object()) {
        let text = arguments_text(&block["input"]);
        block["input"] = serde_json::from_str::<Map<String, Value>>(&text)
            .map_or_else(|_| json!({"arguments": text}), Value::Object);
    }
}

/// Returns the content blocks of a complete response as received.
pub fn native_turn(body: &Value) -> Vec<Value> {
    let mut blocks = body["content"].as_array().cloned().unwrap_or_default();
    blocks.iter_mut().for_each(repair_input);
    blocks
}

/// Reads the usage. The endpoint's `input_tokens` excludes cache reads and writes; Proctor's input
/// count includes them.
pub fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    let count = |name: &str| read_token_count(&usage[name]);
    let creation = &usage["cache_creation"];
    let for_an_hour = read_token_count(&creation["ephemeral_1h_input_tokens"]);
    let parts = for_an_hour.map(|hour| {
        hour + read_token_count(&creation["ephemeral_5m_input_tokens"]).unwrap_or_default()
    });
    let cached = count("cache_read_input_tokens");
    let written = count("cache_creation_input_tokens").or(parts);
    let input = count("input_tokens")? + cached.unwrap_or_default() + written.unwrap_or_default();
    // The output count includes reasoning, which is not reported separately.
    let told =
        Usage::from_endpoint_report((input, count("output_tokens")?), (cached, written), None)
            .with_hour_cache_writes(for_an_hour);
    (!told.is_zero()).then_some(told)
}

/// Reads `stop_reason` and, if present, the stop sequence.
pub(super) fn read_stop_reason(object: &Value) -> StopReason {
    match object["stop_reason"].as_str().unwrap_or("end_turn") {
        "stop_sequence" => {
            StopReason::StopSequence(object["stop_sequence"].as_str().map(ToOwned::to_owned))
        }
        "refusal" => StopReason::Refusal,
        other => StopClass::classify(other).to_stop_reason(other),
    }
}

/// Rejects a response that the endpoint did not finish.
pub(super) fn reject_aborted(object: &Value) -> Result<(), String> {
    StopClass::reject_aborted("stop_reason", object["stop_reason"].as_str())
}

pub(super) fn write_stop_reason(stop: &StopReason) -> (&str, Option<&str>) {
    match stop {
        StopReason::End => ("end_turn", None),
        StopReason::Calls => ("tool_use", None),
        StopReason::Length | StopReason::ContextWindow => ("max_tokens", None),
        StopReason::StopSequence(which) => ("stop_sequence", which.as_deref()),
        StopReason::Filter | StopReason::Refusal => ("refusal", None),
        // An unknown value would crash some clients.
        StopReason::Other(_) => ("end_turn", None),
    }
}

pub(super) fn write_usage(usage: &Usage) -> Value {
    let written = usage.classes.cache_write.unwrap_or_default();
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached).saturating_sub(written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

pub fn write_response(response: &CollectedResponse, usage: &Usage) -> Value {
    let block = |item: &Item| match item {
        Item::Text(text) | Item::Refusal(text) => json!({"type": "text", "text": text}),
        Item::Reasoning(thought) => json!({
            "type": "thinking", "thinking": thought.text,
            "signature": thought.signature.as_deref().unwrap_or_default(),
        }),
        Item::Call(call) => json!({
            "type": "tool_use", "id": call.id, "name": call.name,
            "input": serde_json::from_str::<Value>(&call.arguments)
                .ok()
                .filter(Value::is_object)
                .unwrap_or_else(|| wrap_arguments(&call.arguments)),
        }),
    };
    let ending = response.stop_reason();
    let (reason, sequence) = write_stop_reason(&ending);
    json!({
        "id": super::super::fresh_response_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": response.items.iter().map(block).collect::<Vec<_>>(),
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": write_usage(usage),
    })
}

/// Wraps arguments that are not an object. The client then reports the mistake to the model.
fn wrap_arguments(arguments: &str) -> Value {
    if arguments.trim().is_empty() { json!({}) } else { json!({"arguments": arguments}) }
}
