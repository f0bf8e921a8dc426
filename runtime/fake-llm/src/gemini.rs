//! Google's generateContent format.

use serde_json::{Value, json};

use crate::{
    chat::{Reply, split_chunks},
    script::parse_arguments,
};

pub(crate) fn to_chat_request(request: &Value) -> Result<Value, String> {
    let contents = request["contents"].as_array().ok_or("contents is not specified")?;
    let mut out = Vec::new();
    let system = request["systemInstruction"]["parts"].as_array();
    if let Some(parts) = system {
        let text: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        out.push(json!({"role": "system", "content": text.join("\n")}));
    }
    for (index, content) in contents.iter().enumerate() {
        let (mut said, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for part in content["parts"].as_array().into_iter().flatten() {
            let (call, result) = (&part["functionCall"], &part["functionResponse"]);
            if call.is_object() {
                let arguments = call["args"].to_string();
                let function = json!({"name": call["name"], "arguments": arguments});
                calls.push(json!({"id": call["id"], "function": function}));
            } else if result.is_object() {
                let (id, text) = (&result["id"], result["response"].to_string());
                if !result["response"].is_object() {
                    return Err(format!("contents[{index}]: response must be an object"));
                }
                results.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            } else if let Some(text) = part["text"].as_str() {
                said.push(text);
            } else {
                return Err(format!("contents[{index}]: a part without data: {part}"));
            }
        }
        let content_text = said.join("\n");
        out.extend(results);
        match content["role"].as_str().unwrap_or("user") {
            "model" => {
                out.push(json!({"role": "assistant", "content": content_text, "tool_calls": calls}))
            }
            "user" if said.is_empty() => {}
            "user" => out.push(json!({"role": "user", "content": content_text})),
            other => return Err(format!("contents[{index}]: {other:?} is not a role")),
        }
    }
    Ok(json!({"model": request["model"], "messages": out}))
}

fn response_object(reply: &Reply<'_>, parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if is_last {
        candidate["finishReason"] = match reply.answer.finish_reason.as_deref() {
            Some("length") => "MAX_TOKENS".into(),
            Some("content_filter") => "SAFETY".into(),
            _ => "STOP".into(),
        };
    }
    let mut body = json!({
        "candidates": [candidate], "modelVersion": reply.model, "responseId": reply.id,
    });
    if let Some(usage) = reply.usage.filter(|_| is_last) {
        body["usageMetadata"] = json!({
            "promptTokenCount": usage.input,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output - usage.reasoning,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": usage.input + usage.output,
        });
    }
    body
}

fn calls(reply: &Reply<'_>) -> Vec<Value> {
    let calls = reply.answer.tool_calls.iter().enumerate();
    let parts = calls.map(|(index, call)| {
        let id = format!("call_{}_{index}", reply.turn);
        let call =
            json!({"id": id, "name": call.name, "args": parse_arguments(&call.arguments_text())});
        json!({ "functionCall": call })
    });
    parts.collect()
}

pub(crate) fn response_body(reply: &Reply<'_>) -> Value {
    let mut parts = Vec::new();
    if let Some(thought) = &reply.answer.reasoning_content {
        parts.push(json!({"text": thought, "thought": true}));
    }
    if !reply.answer.content.is_empty() {
        parts.push(json!({"text": reply.answer.content}));
    }
    parts.extend(calls(reply));
    response_object(reply, &parts, true)
}

pub(crate) fn events(reply: &Reply<'_>) -> Vec<Value> {
    let mut events = Vec::new();
    let thought = reply.answer.reasoning_content.as_deref().unwrap_or_default();
    for piece in split_chunks(thought) {
        events.push(response_object(reply, &[json!({"text": piece, "thought": true})], false));
    }
    for piece in split_chunks(&reply.answer.content) {
        events.push(response_object(reply, &[json!({ "text": piece })], false));
    }
    let mut last = calls(reply);
    if last.is_empty() {
        last.push(json!({"text": ""}));
    }
    events.push(response_object(reply, &last, true));
    events
}
