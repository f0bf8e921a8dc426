use proctor_types::Usage;
use serde_json::{Map, Value, json};

use super::{
    items,
    snapshots::{MessageDeduplicator, drop_snapshots},
};
use crate::{
    native,
    neutral::{CollectedResponse, Delta, StopReason},
    read_token_count,
    stop::StopClass,
};

pub fn read_response(body: &Value) -> Result<Vec<Delta>, String> {
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(format!("error in a response with status 200: {error}"));
    }
    let output = body["output"].as_array().ok_or("no output")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut deltas = vec![Delta::Started { model: text(&body["model"]) }];
    let (mut calls, mut messages) = (0, MessageDeduplicator::default());
    for item in output {
        read_item(item, &mut calls, &mut messages, &mut deltas);
    }
    deltas.push(Delta::Stopped(read_stop_reason(body)?));
    deltas.extend(usage(body).map(Delta::Usage));
    Ok(deltas)
}

/// Returns the items of a complete response as received, except for snapshots of a message.
pub fn native_turn(body: &Value) -> Vec<Value> {
    let items = body["output"].as_array().into_iter().flatten();
    drop_snapshots(items.filter_map(to_request_item).collect())
}

/// Prepares an item for a later request by removing members that only describe the response. OpenAI
/// rejects the `null` that its own servers send, and the status of a reasoning item.
pub(super) fn to_request_item(item: &Value) -> Option<Value> {
    let mut fields = item.as_object()?.clone();
    // OpenAI rejects a message without content.
    if item["type"] == "message" && item["content"].as_array().is_none_or(Vec::is_empty) {
        return None;
    }
    native::remove_nulls(&mut fields);
    if item["type"] == "reasoning" {
        fields.remove("status");
        // The API requires this field, even if it is empty.
        fields.entry("summary").or_insert_with(|| json!([]));
    }
    Some(Value::Object(fields))
}

/// Reads a complete item. `call_count` counts the calls so far.
pub(super) fn read_item(
    item: &Value,
    call_count: &mut usize,
    messages: &mut MessageDeduplicator,
    deltas: &mut Vec<Delta>,
) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item["type"].as_str().unwrap_or_default() {
        "message" => {
            messages.begin_message(deltas);
            for part in item["content"].as_array().into_iter().flatten() {
                match part["type"].as_str().unwrap_or_default() {
                    "refusal" => deltas.push(Delta::Refusal(text(&part["refusal"]))),
                    _ => messages.push(text(&part["text"]), deltas),
                }
            }
            messages.end_message(deltas);
        }
        "reasoning" => {
            let parts = ["content", "summary"].map(|name| item[name].as_array());
            let parts = parts.into_iter().flatten().find(|parts| !parts.is_empty());
            let texts = parts.into_iter().flatten().filter_map(|part| part["text"].as_str());
            let thought = texts.collect::<Vec<_>>().join("\n\n");
            if !thought.is_empty() {
                deltas.push(Delta::Reasoning(thought));
            }
            let signature = item["encrypted_content"].as_str();
            deltas.extend(signature.map(|signature| Delta::Signature(signature.to_owned())));
        }
        "function_call" => {
            let index = *call_count;
            *call_count += 1;
            let (id, name) = (text(&item["call_id"]), text(&item["name"]));
            deltas.push(Delta::Call { index, id, name });
            deltas.push(Delta::Arguments { index, text: text(&item["arguments"]) });
        }
        _ => {}
    }
}

pub fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    let detail = |of: &str, name: &str| read_token_count(&usage[of][name]);
    let sums =
        (read_token_count(&usage["input_tokens"])?, read_token_count(&usage["output_tokens"])?);
    let cached = detail("input_tokens_details", "cached_tokens");
    let written = detail("input_tokens_details", "cache_write_tokens");
    let reasoning = detail("output_tokens_details", "reasoning_tokens");
    let told = Usage::from_endpoint_report(sums, (cached, written), reasoning);
    (!told.is_zero()).then_some(told)
}

/// Reads the stop reason. Returns an error if the response is incomplete for an unknown reason,
/// because the server then did not finish it.
pub(super) fn read_stop_reason(response: &Value) -> Result<StopReason, String> {
    match response["status"].as_str().unwrap_or_default() {
        "incomplete" => {}
        // Some servers don't update the status.
        "" | "completed" | "in_progress" | "queued" => return Ok(StopReason::End),
        word => {
            StopClass::reject_aborted("status", Some(word))?;
            return Ok(StopClass::classify(word).to_stop_reason(word));
        }
    }
    match response["incomplete_details"]["reason"].as_str().unwrap_or_default() {
        "max_output_tokens" | "max_tokens" => Ok(StopReason::Length),
        "content_filter" => Ok(StopReason::Filter),
        other => Err(format!("incomplete response, reason {other:?}")),
    }
}

pub fn write_response(
    request: &Map<String, Value>,
    response: &CollectedResponse,
    usage: &Usage,
) -> Value {
    let output = response.items.iter().enumerate();
    let output = output.map(|(number, item)| items::item(item, number, "completed")).collect();
    let stop = response.stop_reason();
    items::response_object(
        request,
        &super::super::fresh_response_id("resp_"),
        &response.model,
        output,
        Some(&stop),
        Some(usage),
    )
}
