use proctor_types::Usage;
use serde_json::{Value, json};

use crate::codec::neutral::{Delta, Item, Stop, Whole};

/// The first choice of an answer that was not streamed.
pub(crate) fn read_whole(body: &Value) -> Result<Vec<Delta>, String> {
    let answer = crate::answer::parse(body, 0)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut deltas = vec![Delta::Started { id: text(&body["id"]), model: text(&body["model"]) }];
    let thought = ["reasoning_content", "reasoning"];
    let thought = thought.iter().find_map(|name| answer.extra.get(*name)?.as_str());
    deltas.extend(thought.map(|text| Delta::Reasoning(text.to_owned())));
    if !answer.content.is_empty() {
        deltas.push(Delta::Text(answer.content));
    }
    if let Some(refusal) = body["choices"][0]["message"]["refusal"].as_str() {
        deltas.push(Delta::Refusal(refusal.to_owned()));
    }
    for (index, call) in answer.tool_calls.into_iter().enumerate() {
        deltas.push(Delta::Call { index, id: call.id, name: call.name });
        deltas.push(Delta::Arguments { index, text: call.arguments });
    }
    deltas.push(Delta::Stopped(read_stop(answer.finish_reason.as_deref().unwrap_or("stop"))));
    deltas.extend(usage(body).map(Delta::Usage));
    Ok(deltas)
}

pub(crate) fn usage(body: &Value) -> Option<Usage> {
    // A usage of nothing at all is one that was not given.
    crate::answer::usage(body).filter(|usage| *usage != Usage::default())
}

pub(super) fn read_stop(reason: &str) -> Stop {
    match reason {
        "stop" => Stop::End,
        "tool_calls" | "function_call" => Stop::Calls,
        "length" => Stop::Length,
        "content_filter" => Stop::Filter,
        other => Stop::Other(other.to_owned()),
    }
}

/// The reason in the words of this format.
pub(crate) fn finish_reason(stop: &Stop) -> String {
    let word = match stop {
        Stop::End | Stop::Sequence(_) | Stop::Refusal => "stop",
        Stop::Calls => "tool_calls",
        Stop::Length => "length",
        Stop::Filter => "content_filter",
        Stop::Other(word) => word,
    };
    word.to_owned()
}

pub(crate) fn write_whole(whole: &Whole, usage: &Usage) -> Value {
    let (mut content, mut reasoning, mut refusal) = (String::new(), String::new(), None);
    let (mut calls, mut details) = (Vec::new(), Vec::new());
    for item in &whole.items {
        match item {
            Item::Text(text) => content.push_str(text),
            Item::Reasoning(thought) => {
                reasoning.push_str(&thought.text);
                let text = Some(thought.text.as_str());
                details
                    .extend(thought.signature.as_deref().map(|signature| detail(text, signature)));
            }
            Item::Refusal(text) => refusal = Some(text.as_str()),
            Item::Call(call) => {
                let function = json!({"name": call.name, "arguments": call.arguments});
                calls.push(json!({"id": call.id, "type": "function", "function": function}));
            }
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
        "finish_reason": finish_reason(&whole.ending()),
    });
    json!({
        "id": whole.id,
        "object": "chat.completion",
        "created": super::super::now(),
        "model": whole.model,
        "choices": [choice],
        "usage": write_usage(usage),
    })
}

/// A signed thought, in the form that OpenRouter made for it. A client that sends its assistant
/// messages back as they came sends the signature back too.
pub(super) fn detail(text: Option<&str>, signature: &str) -> Value {
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
