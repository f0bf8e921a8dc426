use std::borrow::Cow;

use proctor_types::Usage;
use serde_json::{Value, json};

use super::{
    calls::{has_unreadable_calls, standardize_calls},
    turn::MessageBuilder,
};
use crate::{
    neutral::{CollectedResponse, Delta, Item, StopReason},
    read_token_count,
    stop::StopClass,
};

/// Reads the first choice of a non-streamed response. Reading is lenient, because "compatible"
/// endpoints omit different fields. Calls without an id get one that is derived from `step`.
pub fn read_response(body: &Value, step: u64) -> Result<Vec<Delta>, String> {
    // Some model gateways wrap an upstream failure in a response with status 200.
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(format!("error in a response with status 200: {error}"));
    }
    let choice = &merge_choices(body).ok_or("no choices")?;
    reject_aborted(choice)?;
    let standard = standardize_calls(&choice["message"], true);
    let message = standard.as_object().ok_or_else(|| describe_missing_message(choice))?;
    let owned = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let full = |name: &str| message.get(name)?.as_str().filter(|text| !text.is_empty());
    let mut deltas = vec![Delta::Started { model: owned(&body["model"]) }];
    let thought = full("reasoning_content").or_else(|| full("reasoning"));
    deltas.extend(thought.map(|text| Delta::Reasoning(text.to_owned())));
    check_content(message.get("content"))?;
    read_content(&choice["message"]["content"], &mut deltas);
    deltas.extend(full("refusal").map(|text| Delta::Refusal(text.to_owned())));
    for (field, value) in message {
        // Omit empty fields, because some endpoints reject fields that they themselves sent.
        if !NEUTRAL_FIELDS.contains(&field.as_str()) && !value.is_null() && *value != json!([]) {
            deltas.push(Delta::Extra { field: field.clone(), value: value.clone() });
        }
    }
    let calls = parse_calls(message.get("tool_calls"))?;
    if calls.is_empty() && has_unreadable_calls(&standard) {
        return Err("choices[0].message.function_call is not an object".into());
    }
    for (index, call) in calls.iter().enumerate() {
        let function = &call["function"];
        let name = function["name"].as_str();
        let name = name.ok_or(format!("tool_calls[{index}]: no function name"))?.to_owned();
        let id = match call["id"].as_str() {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{step}_{index}"),
        };
        let text = arguments_text(call);
        deltas.push(Delta::Call { index, id, name });
        deltas.push(Delta::Arguments { index, text });
    }
    let reason = given_finish_reason(choice);
    deltas.push(Delta::Stopped(read_stop_reason(reason.unwrap_or("stop"))));
    deltas.extend(usage(body).map(Delta::Usage));
    Ok(deltas)
}

/// Returns the first choice. Some servers split one response into several choices: one for the text
/// and one per call. Text or calls that the first choice lacks are taken from the other choices.
/// Merging is safe because requests never ask for alternatives.
///
/// Services without streaming may put the message into `delta`. It is complete if the choice has a
/// finish reason. Otherwise, it is a chunk of a stream.
fn merge_choices(body: &Value) -> Option<Cow<'_, Value>> {
    let choices = body["choices"].as_array()?;
    let (first, others) = choices.split_first()?;
    if !first["message"].is_object() {
        let mut first = Cow::Borrowed(first);
        if first["delta"].is_object() && given_finish_reason(&first).is_some() {
            let message = first["delta"].clone();
            first.to_mut()["message"] = message;
        }
        return Some(first);
    }
    let has = |choice: &Value, field: &str| match &choice["message"][field] {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    let mut whole = Cow::Borrowed(first);
    for other in others.iter().filter(|other| other["message"].is_object()) {
        for field in ["content", "reasoning_content", "reasoning"] {
            if !has(&whole, field) && has(other, field) {
                whole.to_mut()["message"][field] = other["message"][field].clone();
            }
        }
        if !has(first, "tool_calls") && has(other, "tool_calls") {
            let whole = whole.to_mut();
            let before = as_call_slice(&whole["message"]["tool_calls"]);
            let all = [before, as_call_slice(&other["message"]["tool_calls"])].concat();
            whole["message"]["tool_calls"] = all.into();
            whole["finish_reason"] = other["finish_reason"].clone();
        }
    }
    Some(whole)
}

fn describe_missing_message(choice: &Value) -> &'static str {
    match choice["delta"].is_object() {
        true => "choices[0] has a `delta`, a part of a stream, instead of a `message`",
        false => "choices[0].message is not an object",
    }
}

/// Returns a call's arguments as text. Some servers send the arguments as an object.
pub(super) fn arguments_text(call: &Value) -> String {
    match &call["function"]["arguments"] {
        // Some proxies put an empty object before the actual arguments.
        Value::String(text) => match text.strip_prefix("{}") {
            Some(rest) if rest.trim_start().starts_with('{') => rest.to_owned(),
            _ => text.clone(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the message of a complete response in the endpoint's format. `ids` are the ids of the
/// message's calls.
pub fn native_turn(body: &Value, ids: &[String]) -> Vec<Value> {
    let mut turn = MessageBuilder::default();
    let choice = merge_choices(body).unwrap_or_default();
    let message = standardize_calls(&choice["message"], true);
    let Some(fields) = message.as_object() else { return Vec::new() };
    turn.add_fields(fields);
    for (index, call) in as_call_slice(&message["tool_calls"]).iter().enumerate() {
        turn.add_call(index, call, &arguments_text(call));
    }
    turn.finish(ids)
}

/// Message fields that the neutral format covers.
pub(super) const NEUTRAL_FIELDS: [&str; 4] = ["role", "content", "refusal", "tool_calls"];

/// Checks that the content is text, null, absent or an array of parts.
fn check_content(content: Option<&Value>) -> Result<(), String> {
    match content {
        None | Some(Value::Null | Value::String(_) | Value::Array(_)) => Ok(()),
        Some(_) => Err("choices[0].message.content is not text".into()),
    }
}

/// Reads text and reasoning. Mistral's reasoning models send both as parts.
pub(super) fn read_content(content: &Value, deltas: &mut Vec<Delta>) {
    match content {
        Value::String(text) if !text.is_empty() => deltas.push(Delta::Text(text.clone())),
        Value::Array(parts) => {
            for part in parts {
                let thoughts = part["thinking"].as_array().into_iter().flatten();
                let thoughts = thoughts.filter_map(|one| one["text"].as_str());
                deltas.extend(thoughts.map(|text| Delta::Reasoning(text.to_owned())));
                deltas.extend(part["text"].as_str().map(|text| Delta::Text(text.to_owned())));
            }
        }
        _ => {}
    }
}

/// Returns a message's calls. Some servers send a single call without a list.
pub(super) fn as_call_slice(calls: &Value) -> &[Value] {
    match calls {
        Value::Array(calls) => calls,
        Value::Object(_) => std::slice::from_ref(calls),
        _ => &[],
    }
}

fn parse_calls(calls: Option<&Value>) -> Result<&[Value], String> {
    match calls {
        None | Some(Value::Null) => Ok(&[]),
        Some(calls @ (Value::Array(_) | Value::Object(_))) => Ok(as_call_slice(calls)),
        Some(_) => Err("choices[0].message.tool_calls is not an array".into()),
    }
}

/// Returns the endpoint's own token counts if it reports both input and output. Treats counts that
/// are all zero as absent.
pub fn usage(body: &Value) -> Option<Usage> {
    read_usage(&body["usage"]).or_else(|| nonstandard_usage(&body["choices"][0], &body["x_groq"]))
}

pub(super) fn read_usage(usage: &Value) -> Option<Usage> {
    let mut input = read_token_count(&usage["prompt_tokens"])?;
    let mut output = read_token_count(&usage["completion_tokens"])?;
    let details = &usage["prompt_tokens_details"];
    // DeepSeek and routers to Anthropic models name these counts differently.
    let read = [
        &details["cached_tokens"],
        &usage["prompt_cache_hit_tokens"],
        &usage["cache_read_input_tokens"],
        &usage["cached_tokens"],
    ];
    let written = [
        &details["cache_write_tokens"],
        &details["cache_creation_tokens"],
        &usage["cache_creation_input_tokens"],
    ];
    let for_an_hour = [
        &details["cache_creation_token_details"]["ephemeral_1h_input_tokens"],
        &usage["cache_creation"]["ephemeral_1h_input_tokens"],
    ];
    let first = |names: &[&Value]| names.iter().find_map(|value| read_token_count(value));
    let thoughts =
        [&usage["completion_tokens_details"]["reasoning_tokens"], &usage["reasoning_tokens"]];
    let reasoning = first(&thoughts);
    // xAI does not include reasoning in the completion count. Only the total reveals this.
    if let (Some(thought), Some(total)) = (reasoning, usage["total_tokens"].as_u64())
        && thought > 0
        && total == input + output + thought
    {
        output += thought;
    }
    // Some gateways exclude cached tokens from the input count. Only the total reveals this.
    let apart = first(&read).unwrap_or_default() + first(&written).unwrap_or_default();
    if apart > 0 && usage["total_tokens"].as_u64() == Some(input + output + apart) {
        input += apart;
    }
    let told =
        Usage::from_endpoint_report((input, output), (first(&read), first(&written)), reasoning)
            .with_hour_cache_writes(first(&for_an_hour));
    (!told.is_zero()).then_some(told)
}

/// Returns the usage from a nonstandard location: the choice (Moonshot) or Groq's own field.
pub(super) fn nonstandard_usage(choice: &Value, groq: &Value) -> Option<Usage> {
    read_usage(&choice["usage"]).or_else(|| read_usage(&groq["usage"]))
}

/// Returns an error if the endpoint could not finish the response, even if the response has
/// content.
pub(super) fn reject_aborted(choice: &Value) -> Result<(), String> {
    let error = &choice["error"];
    if !error.is_null() {
        return Err(format!("error in the response: {error}"));
    }
    match choice["finish_reason"]
        .as_str()
        .filter(|reason| StopClass::classify(reason) == StopClass::Aborted)
    {
        Some(reason) => Err(format!("the endpoint aborted the response: finish_reason {reason:?}")),
        None => Ok(()),
    }
}

/// Returns the choice's finish reason. Until a response ends, some servers send an empty string or
/// the word `null`.
pub(super) fn given_finish_reason(choice: &Value) -> Option<&str> {
    choice["finish_reason"].as_str().filter(|reason| !matches!(*reason, "" | "null"))
}

pub(super) fn read_stop_reason(reason: &str) -> StopReason {
    StopClass::classify(reason).to_stop_reason(reason)
}

/// Converts the stop reason to its name in this format.
pub fn finish_reason(stop: &StopReason) -> String {
    let word = match stop {
        StopReason::End | StopReason::StopSequence(_) | StopReason::Refusal => "stop",
        StopReason::Calls => "tool_calls",
        StopReason::Length | StopReason::ContextWindow => "length",
        StopReason::Filter => "content_filter",
        StopReason::Other(word) => word,
    };
    word.to_owned()
}

pub fn write_response(response: &CollectedResponse, usage: &Usage) -> Value {
    let (mut content, mut reasoning, mut refusal) = (String::new(), String::new(), None);
    let (mut calls, mut details) = (Vec::new(), Vec::new());
    for item in &response.items {
        match item {
            Item::Text(text) => content.push_str(text),
            Item::Reasoning(thought) => {
                reasoning.push_str(&thought.text);
                let text = Some(thought.text.as_str());
                details.extend(
                    thought.signature.as_deref().map(|signature| reasoning_detail(text, signature)),
                );
            }
            Item::Refusal(text) => refusal = Some(text.as_str()),
            Item::Call(call) => calls.push(super::write_call(call)),
        }
    }
    let silent = content.is_empty() && (!calls.is_empty() || refusal.is_some());
    let mut message = json!({
        "role": "assistant",
        "content": if silent { Value::Null } else { content.into() },
        "refusal": refusal,
    });
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    if !details.is_empty() {
        message["reasoning_details"] = details.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({
        "index": 0,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_reason(&response.stop_reason()),
    });
    json!({
        "id": super::super::fresh_response_id("chatcmpl-"),
        "object": "chat.completion",
        "created": super::super::unix_seconds(),
        "model": response.model,
        "choices": [choice],
        "usage": write_usage(usage),
    })
}

/// Returns signed reasoning in OpenRouter's format. Clients that send assistant messages back
/// unchanged then also return the signature.
pub fn reasoning_detail(text: Option<&str>, signature: &str) -> Value {
    let mut detail = json!({"type": "reasoning.text", "signature": signature});
    if let Some(text) = text {
        detail["text"] = text.into();
    }
    detail
}

pub(super) fn write_usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

#[cfg(test)]
mod tests {
    use proctor_types::ModelResponse;
    use serde_json::{Value, json};

    use super::{read_response, usage};
    use crate::neutral::CollectedResponse;

    fn parse(body: &Value, step: u64) -> Result<ModelResponse, String> {
        Ok(CollectedResponse::from_deltas(read_response(body, step)?).to_model_response())
    }

    fn message(message: Value) -> Value {
        json!({"choices": [{"message": message, "finish_reason": "stop"}]})
    }

    #[test]
    fn read_response_tolerates_missing_and_extra_fields() {
        let body = message(json!({
            "role": "assistant", "content": [{"type": "text", "text": "a"}, {"text": "b"}],
            "tool_calls": [
                {"function": {"name": "f", "arguments": {"x": 1}}},
                {"id": "", "type": "function", "function": {"name": "g"}},
            ],
            "reasoning_content": "hm", "refusal": null, "annotations": [], "audio": null,
        }));
        let answer = parse(&body, 4).expect("an answer");
        assert_eq!(answer.content, "ab");
        assert_eq!(answer.tool_calls[0].arguments, r#"{"x":1}"#);
        assert_eq!(answer.tool_calls[0].id, "call_4_0");
        assert_eq!(
            (answer.tool_calls[1].id.as_str(), answer.tool_calls[1].arguments.as_str()),
            ("call_4_1", "")
        );
        assert_eq!(Value::Object(answer.extra), json!({"reasoning_content": "hm"}));
        assert!(!answer.refused);
    }

    #[test]
    fn read_response_reads_a_complete_message_in_delta() {
        let of = |reason: Value| {
            let delta = json!({"role": "assistant", "content": "Done."});
            json!({"choices": [{"delta": delta, "finish_reason": reason}]})
        };
        let whole = of(json!("stop"));
        assert_eq!(parse(&whole, 0).expect("an answer").content, "Done.");
        let turn = json!({"role": "assistant", "content": "Done."});
        assert_eq!(super::native_turn(&whole, &[]), [turn]);
        for reason in [json!(null), json!(""), json!("null")] {
            let error = parse(&of(reason), 0).expect_err("a chunk");
            assert!(error.contains("`delta`"), "{error}");
        }
    }

    #[test]
    fn read_response_joins_split_choices() {
        let call = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": "{}"}});
        let split = json!({"choices": [
            {"message": {"role": "assistant", "content": "I look."}, "finish_reason": "stop"},
            {"message": {"tool_calls": [call("a")]}, "finish_reason": "tool_calls"},
            {"message": {"tool_calls": [call("b")]}, "finish_reason": "tool_calls"},
        ]});
        let answer = parse(&split, 0).expect("an answer");
        let ids: Vec<_> = answer.tool_calls.iter().map(|call| &*call.id).collect();
        assert_eq!((&*answer.content, ids), ("I look.", vec!["a", "b"]));
        let turn = super::native_turn(&split, &["a".into(), "b".into()]);
        assert_eq!(turn[0]["tool_calls"].as_array().map(Vec::len), Some(2));
        // With two complete alternatives, only the first one counts.
        let both = json!({"choices": [
            {"message": {"content": "x", "tool_calls": [call("a")]}, "finish_reason": "tool_calls"},
            {"message": {"content": "y", "tool_calls": [call("b")]}, "finish_reason": "tool_calls"},
        ]});
        assert_eq!(parse(&both, 0).expect("an answer").tool_calls.len(), 1);
    }

    #[test]
    fn read_response_reads_calls_in_other_forms() {
        let function = json!({"name": "f", "arguments": "{\"x\": 1}"});
        for (field, value) in
            [("tool_calls", json!([function.clone()])), ("function_call", function.clone())]
        {
            let body = message(json!({"role": "assistant", "content": null, field: value}));
            let answer = parse(&body, 2).expect("an answer");
            let call = &answer.tool_calls[0];
            assert_eq!((&*call.id, &*call.arguments), ("call_2_0", "{\"x\": 1}"));
            assert!(answer.extra.is_empty());
            let standard = json!({"id": "call_2_0", "type": "function", "function": function});
            let turn = super::native_turn(&body, &["call_2_0".into()]);
            let wanted = json!({"role": "assistant", "content": null, "tool_calls": [standard]});
            assert_eq!(turn, [wanted], "the endpoint gets the standard form back");
        }
    }

    #[test]
    fn read_response_recognizes_both_forms_of_refusal() {
        let declined = message(json!({"content": null, "refusal": "I will not."}));
        assert!(parse(&declined, 0).expect("an answer").refused);
        let mut filtered = message(json!({"content": ""}));
        filtered["choices"][0]["finish_reason"] = "content_filter".into();
        assert!(parse(&filtered, 0).expect("an answer").refused);
    }

    #[test]
    fn read_response_rejects_invalid_completions() {
        for (body, why) in [
            (json!({"choices": []}), "no choices"),
            (json!({"error": {"message": "upstream"}}), "upstream"),
            (json!({"choices": [{"text": "old"}]}), "message"),
            (
                json!({"choices": [{"message": {"content": "a"}, "finish_reason": "abort"}]}),
                "abort",
            ),
            (json!({"choices": [{"message": {"content": "a"}, "error": {"code": 502}}]}), "502"),
            (message(json!({"content": 3})), "content"),
            (message(json!({"tool_calls": [{"function": {}}]})), "no function name"),
            (message(json!({"content": "a", "tool_calls": "f()"})), "not an array"),
            (message(json!({"content": "a", "function_call": "f()"})), "function_call"),
            (json!([]), "no choices"),
        ] {
            let error = parse(&body, 0).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn usage_requires_both_counts() {
        let half = json!({"usage": {"prompt_tokens": 3}});
        assert_eq!(usage(&half), None);
        let deepseek = json!({"usage": {
            "prompt_tokens": 3, "completion_tokens": 2, "prompt_cache_hit_tokens": 9}});
        assert_eq!(usage(&deepseek).expect("a usage").cached, 3, "never more than the input");
        // Usage as reported by Portkey in front of Bedrock.
        let apart = json!({"usage": {"prompt_tokens": 368, "completion_tokens": 19, "total_tokens": 10_923,
            "cache_read_input_tokens": 10_536, "cache_creation_input_tokens": 0}});
        let apart = usage(&apart).expect("a usage");
        assert_eq!((apart.input, apart.cached), (10_904, 10_536));
    }
}
