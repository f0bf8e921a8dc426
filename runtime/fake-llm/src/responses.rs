//! The OpenAI Responses format.

use serde_json::{Value, json};

use crate::chat::{CREATED, Reply, split_chunks};

pub(crate) fn to_chat_request(request: &Value) -> Result<Value, String> {
    let one = [json!({"role": "user", "content": request["input"]})];
    let items = match &request["input"] {
        Value::String(_) => &one[..],
        Value::Array(items) => items,
        _ => return Err("Missing required parameter: 'input'.".into()),
    };
    for (index, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        if tool["type"] == "function" && !tool["name"].is_string() {
            return Err(format!("Missing required parameter: 'tools[{index}].name'."));
        }
    }
    let mut out: Vec<Value> = Vec::new();
    if request["instructions"].is_string() {
        out.push(json!({"role": "system", "content": request["instructions"]}));
    }
    for (index, item) in items.iter().enumerate() {
        match item["type"].as_str().unwrap_or("message") {
            "message" if item["role"] == "assistant" => {
                let content = text(&item["content"], "output_text")?;
                let message = json!({"role": "assistant", "content": content, "tool_calls": []});
                out.push(message);
            }
            "message" => {
                let content = text(&item["content"], "input_text")?;
                out.push(json!({"role": item["role"], "content": content}));
            }
            "function_call" => {
                let function = json!({"name": item["name"], "arguments": item["arguments"]});
                let call = json!({"id": item["call_id"], "function": function});
                // Calls, and the text before them, belong to the same response.
                let mut last = out.last_mut().filter(|last| last["role"] == "assistant");
                match last.as_mut().and_then(|last| last["tool_calls"].as_array_mut()) {
                    Some(calls) => calls.push(call),
                    None => {
                        out.push(json!({"role": "assistant", "content": "", "tool_calls": [call]}))
                    }
                }
            }
            "function_call_output" => {
                let content = text(&item["output"], "input_text")?;
                let id = &item["call_id"];
                out.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            "reasoning" if item["encrypted_content"] != signature() => {
                return Err(format!("input[{index}]: the encrypted content could not be verified"));
            }
            "reasoning" => {}
            other => return Err(format!("input[{index}]: unknown item {other:?}")),
        }
    }
    Ok(json!({"model": request["model"], "messages": out}))
}

fn signature() -> Value {
    "scripted-signature".into()
}

fn text(content: &Value, kind: &str) -> Result<String, String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| match part["text"].as_str() {
                Some(text) if part["type"] == kind => Ok(text),
                _ => Err(format!("Invalid value: not a part of type {kind}: {part}")),
            });
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(format!("Invalid value: {other}")),
    }
}

fn items(reply: &Reply<'_>) -> Vec<Value> {
    let answer = reply.answer;
    let mut items = Vec::new();
    if let Some(thought) = &answer.reasoning_content {
        let summary = json!([{"type": "summary_text", "text": thought}]);
        items.push(json!({"type": "reasoning", "id": format!("rs_{}", reply.turn),
            "summary": summary, "encrypted_content": signature()}));
    }
    if !answer.content.is_empty() || answer.refusal.is_some() {
        let part = match &answer.refusal {
            Some(refusal) => json!({"type": "refusal", "refusal": refusal}),
            None => json!({"type": "output_text", "text": answer.content,
                "annotations": [], "logprobs": []}),
        };
        items.push(json!({"type": "message", "id": format!("msg_{}", reply.turn),
            "role": "assistant", "status": "completed", "content": [part]}));
    }
    for (index, call) in answer.tool_calls.iter().enumerate() {
        items.push(json!({"type": "function_call", "id": format!("fc_{}_{index}", reply.turn),
            "call_id": format!("call_{}_{index}", reply.turn), "name": call.name,
            "arguments": call.arguments_text(), "status": "completed"}));
    }
    items
}

fn response(reply: &Reply<'_>, status: &str, output: &[Value]) -> Value {
    let cut = reply.answer.finish_reason.as_deref() == Some("length");
    let (status, incomplete) = match status {
        "completed" if cut => ("incomplete", json!({"reason": "max_output_tokens"})),
        status => (status, Value::Null),
    };
    let usage = reply.usage.filter(|_| status != "in_progress").map(|usage| {
        json!({
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        })
    });
    json!({
        "id": reply.id, "object": "response", "created_at": CREATED, "status": status,
        "error": null, "incomplete_details": incomplete, "model": reply.model,
        "output": output, "usage": usage, "tools": [], "tool_choice": "auto",
        "parallel_tool_calls": true, "metadata": {},
    })
}

pub(crate) fn response_body(reply: &Reply<'_>) -> Value {
    response(reply, "completed", &items(reply))
}

pub(crate) fn events(reply: &Reply<'_>) -> Vec<Value> {
    let output = items(reply);
    let begun = response(reply, "in_progress", &[]);
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (place, item) in output.iter().enumerate() {
        let mut event = |kind: &str, fields: Value| {
            let mut event = json!({"type": kind, "output_index": place, "item_id": item["id"]});
            for (field, value) in fields.as_object().into_iter().flatten() {
                event[field] = value.clone();
            }
            events.push(event);
        };
        let mut empty = item.clone();
        for field in ["content", "summary"] {
            if !empty[field].is_null() {
                empty[field] = json!([]);
            }
        }
        if empty["arguments"].is_string() {
            empty["arguments"] = "".into();
        }
        event("response.output_item.added", json!({ "item": empty }));
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                let all = item["arguments"].as_str().unwrap_or_default();
                for piece in split_chunks(all) {
                    let delta = json!({ "delta": piece });
                    event("response.function_call_arguments.delta", delta);
                }
                event("response.function_call_arguments.done", json!({ "arguments": all }));
            }
            "message" => {
                let part = &item["content"][0];
                let (kind, field) = match part["type"].as_str() {
                    Some("refusal") => ("refusal", "refusal"),
                    _ => ("output_text", "text"),
                };
                let all = part[field].as_str().unwrap_or_default();
                let mut empty = part.clone();
                empty[field] = "".into();
                event("response.content_part.added", json!({"content_index": 0, "part": empty}));
                for piece in split_chunks(all) {
                    let delta = json!({"content_index": 0, "delta": piece, "logprobs": []});
                    event(&format!("response.{kind}.delta"), delta);
                }
                let mut done = json!({"content_index": 0, "logprobs": []});
                done[field] = all.into();
                event(&format!("response.{kind}.done"), done);
                event("response.content_part.done", json!({"content_index": 0, "part": part}));
            }
            _ => {
                let part = &item["summary"][0];
                let all = part["text"].as_str().unwrap_or_default();
                let empty = json!({"type": "summary_text", "text": ""});
                event(
                    "response.reasoning_summary_part.added",
                    json!({"summary_index": 0, "part": empty}),
                );
                for piece in split_chunks(all) {
                    let delta = json!({"summary_index": 0, "delta": piece});
                    event("response.reasoning_summary_text.delta", delta);
                }
                event(
                    "response.reasoning_summary_part.done",
                    json!({"summary_index": 0, "part": part}),
                );
            }
        }
        event("response.output_item.done", json!({ "item": item }));
    }
    let end = response(reply, "completed", &output);
    let status = end["status"].as_str().unwrap_or("completed").to_owned();
    events.push(json!({"type": format!("response.{status}"), "response": end}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}
