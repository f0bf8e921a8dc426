use proctor_types::Usage;
use serde_json::{Map, Value, json};

use crate::{
    neutral::{Delta, Item, Stop, Whole},
    stop::StopWord,
    tokens,
};

pub fn read_whole(body: &Value) -> Result<Vec<Delta>, String> {
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
                deltas.push(Delta::Arguments { index, text: arguments(&block["input"]) });
                index += 1;
            }
            _ => {}
        }
    }
    deltas.push(Delta::Stopped(read_stop(body)));
    deltas.extend(usage(body).map(Delta::Usage));
    Ok(deltas)
}

/// Returns a call's arguments as text. Some gateways send the object as text, or null if there are
/// no arguments.
pub(super) fn arguments(input: &Value) -> String {
    match input {
        Value::Null => "{}".to_owned(),
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Converts the input of a call to an object, as requests require. Arguments that are not JSON are
/// wrapped in a field, as in every format.
pub(super) fn repair_input(block: &mut Value) {
    if block.get("input").is_some_and(|input| !input.is_object()) {
        let text = arguments(&block["input"]);
        block["input"] = serde_json::from_str::<Map<String, Value>>(&text)
            .map_or_else(|_| json!({"arguments": text}), Value::Object);
    }
}

/// Returns the content blocks of a complete response as received.
pub fn whole_turn(body: &Value) -> Vec<Value> {
    let mut blocks = body["content"].as_array().cloned().unwrap_or_default();
    blocks.iter_mut().for_each(repair_input);
    blocks
}

/// Reads the usage. The endpoint's `input_tokens` excludes cache reads and writes; Proctor's input
/// count includes them.
pub fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    let count = |name: &str| tokens(&usage[name]);
    let creation = &usage["cache_creation"];
    let for_an_hour = tokens(&creation["ephemeral_1h_input_tokens"]);
    let parts = for_an_hour
        .map(|hour| hour + tokens(&creation["ephemeral_5m_input_tokens"]).unwrap_or_default());
    let cached = count("cache_read_input_tokens");
    let written = count("cache_creation_input_tokens").or(parts);
    let input = count("input_tokens")? + cached.unwrap_or_default() + written.unwrap_or_default();
    // Reasoning is part of the output and is not reported separately.
    let told = Usage::told((input, count("output_tokens")?), (cached, written), None)
        .with_hour_writes(for_an_hour);
    (!told.is_nothing()).then_some(told)
}

/// Reads `stop_reason`, which may be accompanied by a stop sequence.
pub(super) fn read_stop(holder: &Value) -> Stop {
    match holder["stop_reason"].as_str().unwrap_or("end_turn") {
        "stop_sequence" => Stop::Sequence(holder["stop_sequence"].as_str().map(ToOwned::to_owned)),
        "refusal" => Stop::Refusal,
        other => StopWord::of(other).stop(other),
    }
}

/// Rejects a response that the endpoint did not finish.
pub(super) fn reject_aborted(holder: &Value) -> Result<(), String> {
    StopWord::reject_aborted("stop_reason", holder["stop_reason"].as_str())
}

/// Returns `stop_reason` and `stop_sequence`.
pub(super) fn write_stop(stop: &Stop) -> (&str, Option<&str>) {
    match stop {
        Stop::End => ("end_turn", None),
        Stop::Calls => ("tool_use", None),
        Stop::Length | Stop::Window => ("max_tokens", None),
        Stop::Sequence(which) => ("stop_sequence", which.as_deref()),
        Stop::Filter | Stop::Refusal => ("refusal", None),
        // An unknown value would crash some clients.
        Stop::Other(_) => ("end_turn", None),
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

pub fn write_whole(whole: &Whole, usage: &Usage) -> Value {
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
                .unwrap_or_else(|| malformed(&call.arguments)),
        }),
    };
    let ending = whole.ending();
    let (reason, sequence) = write_stop(&ending);
    json!({
        "id": super::super::fresh_response_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": whole.model,
        "content": whole.items.iter().map(block).collect::<Vec<_>>(),
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": write_usage(usage),
    })
}

/// Wraps arguments that are not an object. The client reports them to the model, as usual.
fn malformed(arguments: &str) -> Value {
    if arguments.trim().is_empty() { json!({}) } else { json!({"arguments": arguments}) }
}
