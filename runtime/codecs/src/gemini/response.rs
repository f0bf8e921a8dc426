use proctor_types::Usage;
use serde_json::{Value, json};

use crate::{
    neutral::{CollectedResponse, Delta, Item, StopReason},
    read_token_count,
    stop::StopClass,
};

pub fn read_response(body: &Value) -> Result<Vec<Delta>, String> {
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(format!("error in a response with status 200: {error}"));
    }
    reject_aborted(body)?;
    let mut deltas = vec![started_delta(body)];
    let mut calls = CallTracker::default();
    read_parts(body, &mut calls, &mut deltas);
    calls.finish_call(&mut deltas);
    deltas.extend(blocked_delta(body));
    match read_stop_reason(body) {
        Some(stop) => deltas.push(Delta::Stopped(stop)),
        None => return Err("no candidates".into()),
    }
    deltas.extend(usage(body).map(Delta::Usage));
    Ok(deltas)
}

pub(super) fn started_delta(body: &Value) -> Delta {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Delta::Started { model: text(&body["modelVersion"]) }
}

/// The calls that were read so far.
#[derive(Debug, Default)]
pub(super) struct CallTracker {
    call_count: usize,
    /// Whether the last call has no arguments yet. Its arguments may follow in a separate part.
    lacks_arguments: bool,
}

impl CallTracker {
    /// Gives the last call an empty object as arguments if none have arrived.
    pub(super) fn finish_call(&mut self, deltas: &mut Vec<Delta>) {
        if std::mem::take(&mut self.lacks_arguments) {
            deltas.push(Delta::Arguments { index: self.call_count - 1, text: "{}".to_owned() });
        }
    }
}

/// Whether this call contains only arguments, which belong to the previous call. Some streams send
/// the name and the arguments separately.
fn has_only_arguments(call: &Value) -> bool {
    call["name"].as_str().is_none_or(str::is_empty)
        && call["args"].as_object().is_some_and(|args| !args.is_empty())
}

/// Reads the first candidate's parts.
pub(super) fn read_parts(body: &Value, calls: &mut CallTracker, deltas: &mut Vec<Delta>) {
    let parts = body["candidates"][0]["content"]["parts"].as_array();
    let parts = parts.map(Vec::as_slice).unwrap_or_default();
    for (number, part) in parts.iter().enumerate() {
        if let Some(call) = part.get("functionCall") {
            let text = match &call["args"] {
                Value::Null => "{}".to_owned(),
                args => args.to_string(),
            };
            if calls.lacks_arguments && has_only_arguments(call) {
                calls.lacks_arguments = false;
                deltas.push(Delta::Arguments { index: calls.call_count - 1, text });
                continue;
            }
            calls.finish_call(deltas);
            let index = calls.call_count;
            calls.call_count += 1;
            let id = call["id"].as_str().filter(|id| !id.is_empty());
            let id = id.map_or_else(crate::fresh_call_id, ToOwned::to_owned);
            let name = call["name"].as_str().unwrap_or_default().to_owned();
            deltas.push(Delta::Call { index, id, name });
            calls.lacks_arguments = text == "{}";
            if !calls.lacks_arguments {
                deltas.push(Delta::Arguments { index, text });
            }
        } else if let Some(code) = part["executableCode"]["code"].as_str() {
            // The endpoint mistook a call for its own code execution. Pass it on as text, because
            // Proctor also looks for calls in text.
            deltas.push(Delta::Text(format!("```tool_code\n{code}\n```")));
        } else if let Some(text) = part["text"].as_str().filter(|text| !text.is_empty()) {
            let text = text.to_owned();
            let is_thought =
                part["thought"] == true || is_unmarked_thought(&text, &parts[number + 1..]);
            deltas.push(match is_thought {
                true => Delta::Reasoning(text),
                false => Delta::Text(text),
            });
        }
    }
}

/// Whether a part is a thought although it is not marked as one: it has the header of a thought,
/// and the answer follows in a separate part. A model that writes such a header itself puts its
/// text into a single part.
fn is_unmarked_thought(text: &str, next_parts: &[Value]) -> bool {
    let is_answer = |part: &Value| {
        part["thought"] != true && part["text"].as_str().is_some_and(|text| !text.trim().is_empty())
    };
    text.starts_with("THOUGHT:") && next_parts.iter().any(is_answer)
}

/// Returns the reason why the endpoint blocked the prompt.
fn block_reason(body: &Value) -> Option<&str> {
    body["promptFeedback"]["blockReason"].as_str().filter(|reason| !reason.is_empty())
}

/// Returns the category of content that the provider's filter found in the prompt. Other reasons,
/// such as `OTHER`, name no category: the same prompt often succeeds later.
fn blocked_category(body: &Value) -> Option<&str> {
    block_reason(body).filter(|reason| StopClass::classify(reason) == StopClass::Filter)
}

/// Returns the filter's category as `refusal`, the field that chat endpoints use for the reason.
pub(super) fn blocked_delta(body: &Value) -> Option<Delta> {
    let category = blocked_category(body)?;
    let why = format!("the provider's filter blocked the prompt: {category}");
    Some(Delta::Extra { field: "refusal".to_owned(), value: why.into() })
}

/// Returns the stop reason, if the response has ended.
pub(super) fn read_stop_reason(body: &Value) -> Option<StopReason> {
    if blocked_category(body).is_some() {
        return Some(StopReason::Filter);
    }
    let candidate = &body["candidates"][0];
    match candidate["finishReason"].as_str() {
        Some(word) => Some(StopClass::classify(word).to_stop_reason(word)),
        None if candidate.is_null() => {
            block_reason(body).map(|reason| StopReason::Other(format!("blockReason {reason}")))
        }
        None => None,
    }
}

/// Returns an error if the endpoint did not finish the response or could not parse the model's
/// output.
pub(super) fn reject_aborted(body: &Value) -> Result<(), String> {
    StopClass::reject_aborted("finishReason", body["candidates"][0]["finishReason"].as_str())
}

/// Returns the parts of a complete response as received.
pub fn native_turn(body: &Value) -> Vec<Value> {
    let mut parts = Vec::new();
    add_parts(&mut parts, body);
    parts
}

/// Adds the parts of a streamed response. Text is appended to the previous text, unless one of the
/// two is signed.
pub(super) fn add_parts(parts: &mut Vec<Value>, body: &Value) {
    let plain = |part: &Value| {
        let fields = part
            .as_object()
            .map(|fields| fields.keys().all(|name| name == "text" || name == "thought"));
        fields == Some(true) && part["text"].is_string()
    };
    for part in body["candidates"][0]["content"]["parts"].as_array().into_iter().flatten() {
        if let Some(call) = part.get("functionCall").filter(|call| has_only_arguments(call))
            && let Some(last) = parts.last_mut().and_then(|last| last.get_mut("functionCall"))
            && last["args"].as_object().is_none_or(serde_json::Map::is_empty)
        {
            last["args"] = call["args"].clone();
            continue;
        }
        match parts.last_mut() {
            Some(Value::Object(last))
                if plain(part)
                    && last.keys().all(|name| name == "text" || name == "thought")
                    && last.get("thought") == part.get("thought") =>
            {
                let text = part["text"].as_str().unwrap_or_default();
                if let Some(Value::String(before)) = last.get_mut("text") {
                    before.push_str(text);
                }
            }
            // Skip a part without members, because it cannot be sent back.
            _ if part.as_object().is_none_or(serde_json::Map::is_empty) => {}
            _ => parts.push(part.clone()),
        }
    }
}

/// Reads the usage. The endpoint's output count excludes reasoning, and its prompt count excludes
/// tool prompt tokens.
pub fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usageMetadata")?;
    let count = |name: &str| read_token_count(&usage[name]);
    let input = count("promptTokenCount")? + count("toolUsePromptTokenCount").unwrap_or_default();
    let reasoning = count("thoughtsTokenCount");
    let visible = count("candidatesTokenCount").unwrap_or_default();
    let sums = (input, visible + reasoning.unwrap_or_default());
    let told =
        Usage::from_endpoint_report(sums, (count("cachedContentTokenCount"), None), reasoning);
    (!told.is_zero()).then_some(told)
}

pub(super) fn write_usage(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    })
}

pub(super) fn finish_reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::End | StopReason::Calls | StopReason::StopSequence(_) => "STOP",
        StopReason::Length | StopReason::ContextWindow => "MAX_TOKENS",
        StopReason::Filter | StopReason::Refusal => "SAFETY",
        StopReason::Other(_) => "OTHER",
    }
}

/// Converts arguments to an object. Anything else that the model wrote is wrapped in a field.
pub(super) fn arguments_object(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return json!({});
    }
    let parsed = serde_json::from_str::<Value>(arguments).ok().filter(Value::is_object);
    parsed.unwrap_or_else(|| json!({ "arguments": arguments }))
}

pub(super) fn write_part(item: &Item) -> Value {
    match item {
        Item::Text(text) | Item::Refusal(text) => json!({ "text": text }),
        Item::Reasoning(thought) => json!({"text": thought.text, "thought": true}),
        Item::Call(call) => json!({"functionCall": {
            "id": call.id, "name": call.name, "args": arguments_object(&call.arguments)}}),
    }
}

pub fn write_response(response: &CollectedResponse, usage: &Usage) -> Value {
    let parts: Vec<_> = response.items.iter().map(write_part).collect();
    json!({
        "candidates": [{
            "content": {"role": "model", "parts": parts},
            "finishReason": finish_reason(&response.stop_reason()),
            "index": 0,
        }],
        "usageMetadata": write_usage(usage),
        "modelVersion": response.model,
        "responseId": super::super::fresh_response_id(""),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read_response;
    use crate::neutral::{CollectedResponse, Item, StopReason};

    fn blocked(reason: &str) -> CollectedResponse {
        let body = json!({"promptFeedback": {"blockReason": reason}});
        CollectedResponse::from_deltas(read_response(&body).expect("a response"))
    }

    #[test]
    fn thought_without_a_mark_is_reasoning_if_an_answer_follows() {
        let has_reasoning = |parts: Value| {
            let body =
                json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
            let whole = CollectedResponse::from_deltas(read_response(&body).expect("a response"));
            whole.items.iter().any(|item| matches!(item, Item::Reasoning(_)))
        };
        let (thought, answer) = (json!({"text": "THOUGHT:\nI look."}), json!({"text": "Done."}));
        assert!(has_reasoning(json!([thought, answer])));
        assert!(!has_reasoning(json!([thought])), "the model may write this itself");
        assert!(!has_reasoning(json!([thought, {"functionCall": {"name": "ls", "args": {}}}])));
        assert!(!has_reasoning(json!([answer, answer])));
    }

    #[test]
    fn block_without_a_category_is_an_empty_response() {
        for reason in ["OTHER", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"] {
            let defect = blocked(reason).defect().expect("no output");
            assert!(defect.contains(&format!("blockReason {reason}")), "{defect}");
            assert!(!blocked(reason).to_model_response().refused, "{reason}");
        }
    }

    #[test]
    fn block_with_a_category_is_a_refusal_that_names_it() {
        for reason in ["SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "IMAGE_SAFETY", "JAILBREAK"] {
            let whole = blocked(reason);
            assert_eq!((whole.defect(), whole.stop_reason()), (None, StopReason::Filter));
            let answer = whole.to_model_response();
            assert!(answer.refused, "{reason}");
            let said = answer.extra["refusal"].as_str().expect("a reason");
            assert!(said.ends_with(reason), "{said}");
        }
    }

    #[test]
    fn unspecified_block_reason_of_a_complete_response_is_ignored() {
        let read = |candidate: Value| {
            read_response(&json!({"candidates": [candidate],
                "promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}))
        };
        let content = json!({"role": "model", "parts": [{"text": "Done."}]});
        let whole = read(json!({"content": content, "finishReason": "STOP"}));
        let whole = CollectedResponse::from_deltas(whole.expect("a response"));
        assert_eq!(whole.stop_reason(), StopReason::End);
        assert!(read(json!({"content": content})).is_err(), "the response has not ended");
    }
}
