//! The Anthropic Messages format.

use serde_json::{Value, json};

use crate::{
    chat::{Reply, split_chunks},
    script::parse_arguments,
};

/// The signature of every thinking block. If a client sends back a thinking block without this
/// signature, the server rejects the request.
const SIGNATURE: &str = "scripted-signature";

pub(crate) fn to_chat_request(request: &Value) -> Result<Value, String> {
    if !request["max_tokens"].is_u64() {
        return Err("max_tokens: Field required".into());
    }
    let messages = request["messages"].as_array().ok_or("messages: Field required")?;
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Err("messages: first message must use the user role".into());
    }
    for (index, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        if !tool["name"].is_string() || tool["input_schema"]["type"] != "object" {
            return Err(format!(
                "tools.{index}: expected a name and an input_schema of type object"
            ));
        }
    }
    let mut out = Vec::new();
    if !request["system"].is_null() {
        out.push(json!({"role": "system", "content": text(&request["system"])?}));
    }
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let (mut said, mut calls) = (Vec::new(), Vec::new());
        let one = [json!({"type": "text", "text": message["content"]})];
        let blocks = match &message["content"] {
            Value::String(_) => &one[..],
            Value::Array(blocks) => blocks,
            _ => return Err(format!("messages.{index}.content: Field required")),
        };
        for block in blocks {
            match block["type"].as_str().unwrap_or_default() {
                "text" if block["text"] == "" => {
                    return Err(format!("messages.{index}: text content blocks must be non-empty"));
                }
                "text" => said.push(block["text"].as_str().unwrap_or_default().to_owned()),
                "thinking" if block["signature"] != SIGNATURE => {
                    return Err(format!("messages.{index}: Invalid signature in thinking block"));
                }
                "thinking" => {}
                "tool_use" if !block["input"].is_object() => {
                    return Err(format!("messages.{index}: input should be an object"));
                }
                "tool_use" => {
                    let arguments = block["input"].to_string();
                    let function = json!({"name": block["name"], "arguments": arguments});
                    calls.push(json!({"id": block["id"], "function": function}));
                }
                "tool_result" if said.is_empty() => out.push(json!({
                    "role": "tool", "tool_call_id": block["tool_use_id"],
                    "content": text(&block["content"])?,
                })),
                "tool_result" => {
                    return Err(format!("messages.{index}: tool_result blocks must come first"));
                }
                other => return Err(format!("messages.{index}: unknown block {other:?}")),
            }
        }
        if role == "assistant" {
            let content = said.join("\n");
            out.push(json!({"role": role, "content": content, "tool_calls": calls}));
        } else if !said.is_empty() {
            out.push(json!({"role": role, "content": said.join("\n")}));
        }
    }
    Ok(json!({"model": request["model"], "messages": out}))
}

fn text(content: &Value) -> Result<String, String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| match block["text"].as_str() {
                Some(text) if block["type"] == "text" => Ok(text),
                _ => Err(format!("not a text block: {block}")),
            });
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => Err(format!("invalid content: {other}")),
    }
}

fn usage(reply: &Reply<'_>) -> Value {
    let usage = reply.usage.unwrap_or_default();
    json!({
        "input_tokens": usage.input - usage.cached,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.output,
    })
}

fn stop_reason(reply: &Reply<'_>) -> &'static str {
    match reply.answer.finish_reason.as_deref() {
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        _ if reply.answer.refusal.is_some() => "refusal",
        _ if reply.answer.tool_calls.is_empty() => "end_turn",
        _ => "tool_use",
    }
}

/// Returns the content blocks, which are initially empty, each with the deltas that fill it.
fn blocks(reply: &Reply<'_>) -> Vec<(Value, Vec<Value>)> {
    let answer = reply.answer;
    let mut blocks = Vec::new();
    if let Some(thought) = &answer.reasoning_content {
        let mut deltas: Vec<_> = split_chunks(thought)
            .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
        blocks.push((json!({"type": "thinking", "thinking": "", "signature": ""}), deltas));
    }
    for said in [Some(&answer.content), answer.refusal.as_ref()].into_iter().flatten() {
        if !said.is_empty() {
            let deltas =
                split_chunks(said).map(|piece| json!({"type": "text_delta", "text": piece}));
            blocks.push((json!({"type": "text", "text": ""}), deltas.collect()));
        }
    }
    for (index, call) in answer.tool_calls.iter().enumerate() {
        let id = format!("toolu_{}_{index}", reply.turn);
        let text = call.arguments_text();
        let deltas = split_chunks(&text)
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        let block = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
        blocks.push((block, deltas.collect()));
    }
    blocks
}

pub(crate) fn response_body(reply: &Reply<'_>) -> Value {
    let content = blocks(reply).into_iter().map(|(mut block, deltas)| {
        let all = |field: &str| -> String {
            deltas.iter().filter_map(|delta| delta[field].as_str()).collect()
        };
        match block["type"].as_str().unwrap_or_default() {
            "thinking" => {
                block["thinking"] = all("thinking").into();
                block["signature"] = SIGNATURE.into();
            }
            "text" => block["text"] = all("text").into(),
            _ => block["input"] = parse_arguments(&all("partial_json")),
        }
        block
    });
    let mut body = json!({
        "id": reply.id, "type": "message", "role": "assistant", "model": reply.model,
        "content": content.collect::<Vec<_>>(),
        "stop_reason": stop_reason(reply), "stop_sequence": null,
    });
    if reply.usage.is_some() {
        body["usage"] = usage(reply);
    }
    body
}

pub(crate) fn events(reply: &Reply<'_>) -> Vec<Value> {
    let mut start = usage(reply);
    start["output_tokens"] = 1.into();
    let mut message = json!({
        "id": reply.id, "type": "message", "role": "assistant", "model": reply.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    if reply.usage.is_some() {
        message["usage"] = start;
    }
    let mut events =
        vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    for (index, (block, deltas)) in blocks(reply).into_iter().enumerate() {
        let kind = "content_block_start";
        events.push(json!({"type": kind, "index": index, "content_block": block}));
        let kind = "content_block_delta";
        events.extend(
            deltas.into_iter().map(|delta| json!({"type": kind, "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason(reply), "stop_sequence": null});
    let mut end = json!({"type": "message_delta", "delta": delta});
    if let Some(usage) = reply.usage {
        end["usage"] = json!({"output_tokens": usage.output});
    }
    events.extend([end, json!({"type": "message_stop"})]);
    events
}
