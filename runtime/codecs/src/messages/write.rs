use std::collections::HashSet;

use proctor_types::{Api, ToolCall};
use serde_json::{Map, Value, json};

use crate::{
    Losses,
    neutral::{Part, Request, ResponseFormat, Role, ToolChoice, Turn},
};

/// The output limit if neither the client nor the arm sets one. The format requires a limit, and
/// all of the vendor's models since 2025 support this one.
const DEFAULT_MAX_TOKENS: u64 = 32_000;

pub fn write_request(request: &Request, losses: &mut Losses) -> Result<Map<String, Value>, String> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    if request.max_output.is_none() {
        losses.add_approximated("no output limit");
    }
    body.insert("max_tokens".into(), request.max_output.unwrap_or(DEFAULT_MAX_TOKENS).into());
    let head = request.turns.iter().take_while(|turn| turn.role == Role::System).count();
    let (head, rest) = request.turns.split_at(head);
    let mut system = Vec::new();
    for turn in head {
        write_parts(turn, &HashSet::new(), &mut system, losses)?;
    }
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    body.insert("messages".into(), write_messages(rest, losses)?.into());
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut out = json!({"name": tool.name, "description": tool.description,
                "input_schema": tool.parameters});
            if tool.strict == Some(true) {
                out["strict"] = true.into();
            }
            out
        });
        body.insert("tools".into(), tools.collect());
        if let Some(choice) = write_tool_choice(request) {
            body.insert("tool_choice".into(), choice);
        }
    }
    let temperature = request.temperature.map(|given| {
        if given > 1.0 {
            losses.add_approximated("temperature above 1");
        }
        given.min(1.0)
    });
    if request.seed.is_some() {
        losses.add_dropped("seed");
    }
    let stop = (!request.stop_sequences.is_empty()).then_some(&request.stop_sequences);
    let shape = match &request.response_format {
        Some(ResponseFormat::Schema { schema, .. }) => {
            json!({"format": {"type": "json_schema", "schema": schema}})
        }
        Some(ResponseFormat::Json) => {
            losses.add_dropped("response_format");
            Value::Null
        }
        None => Value::Null,
    };
    for (field, value) in [
        ("temperature", json!(temperature)),
        ("top_p", json!(request.top_p)),
        ("stop_sequences", json!(stop)),
        ("output_config", shape),
    ] {
        if !value.is_null() {
            body.insert(field.into(), value);
        }
    }
    if request.is_streaming {
        body.insert("stream".into(), true.into());
    }
    Ok(body)
}

/// Writes turns by role. Merges consecutive turns with the same role, because the format requires
/// alternating roles, and all results of a response in one turn.
fn write_messages(turns: &[Turn], losses: &mut Losses) -> Result<Vec<Value>, String> {
    let mut out: Vec<(&str, Vec<Value>)> = Vec::new();
    let own = native_call_ids(turns);
    for turn in turns {
        let role = match turn.role {
            Role::Assistant => "assistant",
            Role::User => "user",
            Role::System => {
                losses.add_approximated("a system message within the conversation");
                "user"
            }
        };
        match out.last_mut().filter(|(last, _)| *last == role) {
            Some((_, blocks)) => write_parts(turn, &own, blocks, losses)?,
            None => {
                let mut blocks = Vec::new();
                write_parts(turn, &own, &mut blocks, losses)?;
                if !blocks.is_empty() {
                    out.push((role, blocks));
                }
            }
        }
    }
    let messages = out.into_iter().map(|(role, mut blocks)| {
        // Put results first: the format requires a result for each call before other content.
        blocks.sort_by_key(|block| block["type"] != "tool_result" && role == "user");
        json!({"role": role, "content": blocks})
    });
    Ok(messages.collect())
}

/// Returns the ids of calls that are sent back in the endpoint's own format. Their results must use
/// exactly these ids, even if they contain invalid characters.
fn native_call_ids(turns: &[Turn]) -> HashSet<&str> {
    let blocks = turns.iter().filter_map(|turn| turn.native_items(Api::Messages)).flatten();
    blocks.filter(|block| block["type"] == "tool_use").filter_map(|b| b["id"].as_str()).collect()
}

fn write_parts(
    turn: &Turn,
    native_ids: &HashSet<&str>,
    blocks: &mut Vec<Value>,
    losses: &mut Losses,
) -> Result<(), String> {
    if let Some(items) = turn.native_items(Api::Messages) {
        // The endpoint rejects blank text, even text that it sent itself.
        let blank = |block: &Value| {
            block["type"] == "text"
                && block["text"].as_str().is_some_and(|text| text.trim().is_empty())
        };
        blocks.extend(items.iter().filter(|block| !blank(block)).cloned());
        return Ok(());
    }
    for part in &turn.parts {
        match part {
            // The endpoint rejects blank text.
            Part::Text(text) if text.trim().is_empty() => {}
            Part::Text(text) => blocks.push(json!({"type": "text", "text": text})),
            Part::Reasoning(thought) => match &thought.signature {
                Some(signature) => blocks.push(json!(
                    {"type": "thinking", "thinking": thought.text, "signature": signature}
                )),
                None => losses.add_dropped("reasoning without a signature"),
            },
            Part::Call(call) => blocks.push(json!({
                "type": "tool_use", "id": sanitize_id(&call.id), "name": call.name,
                "input": arguments_object(call, losses),
            })),
            Part::Result { id: of, content, is_error: failed } => {
                let of =
                    if native_ids.contains(of.as_str()) { of.clone() } else { sanitize_id(of) };
                let mut block =
                    json!({"type": "tool_result", "tool_use_id": of, "content": content});
                if *failed {
                    block["is_error"] = true.into();
                }
                blocks.push(block);
            }
            Part::Image(image) if turn.role == Role::User => {
                blocks.push(json!({"type": "image", "source": image.source()}));
            }
            Part::Image(_) => return Err(crate::unsupported_media("image")),
            Part::Media(kind) => return Err(crate::unsupported_media(kind)),
        }
    }
    Ok(())
}

/// Replaces invalid characters in an id. The format allows letters, digits, `_` and `-`, but some
/// models use other characters.
fn sanitize_id(id: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    id.chars().map(fit).collect()
}

/// Returns the arguments as an object. Anything else that the model wrote is wrapped in a field.
fn arguments_object(call: &ToolCall, losses: &mut Losses) -> Value {
    if call.arguments.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(object @ Value::Object(_)) => object,
        _ => {
            losses.add_approximated("arguments of a call that are not an object");
            json!({"arguments": call.arguments})
        }
    }
}

fn write_tool_choice(request: &Request) -> Option<Value> {
    let off = request.allows_parallel_calls == Some(false);
    let mut choice = match &request.tool_choice {
        None if off => json!({"type": "auto"}),
        None => return None,
        Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::Any) => json!({"type": "any"}),
        Some(ToolChoice::Never) => return Some(json!({"type": "none"})),
        Some(ToolChoice::Named(name)) => json!({"type": "tool", "name": name}),
    };
    if off {
        choice["disable_parallel_tool_use"] = true.into();
    }
    Some(choice)
}
