use proctor_types::Api;
use serde_json::{Map, Value, json};

use crate::{
    Losses,
    neutral::{Part, Request, ResponseFormat, Role, Tool, ToolChoice, Turn},
};

/// The `include` value that asks for encrypted reasoning, which a stateless conversation needs.
const INCLUDE_ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

pub fn write_request(request: &Request, losses: &mut Losses) -> Result<Map<String, Value>, String> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let mut input = Vec::new();
    for turn in &request.turns {
        write_turn(turn, &mut input, losses)?;
    }
    body.insert("input".into(), input.into());
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(write_tool).collect());
        if let Some(choice) = &request.tool_choice {
            let choice = match choice {
                ToolChoice::Auto => "auto".into(),
                ToolChoice::Never => "none".into(),
                ToolChoice::Any => "required".into(),
                ToolChoice::Named(name) => json!({"type": "function", "name": name}),
            };
            body.insert("tool_choice".into(), choice);
        }
        if let Some(parallel) = request.allows_parallel_calls {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
    }
    if !request.stop_sequences.is_empty() {
        losses.add_dropped("stop sequences");
    }
    if request.seed.is_some() {
        losses.add_dropped("seed");
    }
    let shape = request.response_format.as_ref().map(|shape| match shape {
        ResponseFormat::Json => json!({"format": {"type": "json_object"}}),
        ResponseFormat::Schema { name, schema, strict } => {
            let mut format = json!({"type": "json_schema", "name": name, "schema": schema});
            if let Some(strict) = strict {
                format["strict"] = (*strict).into();
            }
            json!({ "format": format })
        }
    });
    for (field, value) in [
        ("max_output_tokens", json!(request.max_output)),
        ("temperature", json!(request.temperature)),
        ("top_p", json!(request.top_p)),
        ("text", json!(shape)),
    ] {
        if !value.is_null() {
            body.insert(field.into(), value);
        }
    }
    // Let the provider store nothing: each request contains the whole conversation, including the
    // signed reasoning that the client sends back.
    body.insert("store".into(), false.into());
    body.insert("include".into(), json!([INCLUDE_ENCRYPTED_REASONING]));
    if request.is_streaming {
        body.insert("stream".into(), true.into());
    }
    Ok(body)
}

fn write_turn(turn: &Turn, input: &mut Vec<Value>, losses: &mut Losses) -> Result<(), String> {
    if let Some(items) = turn.native_items(Api::Responses) {
        input.extend(items.iter().cloned());
        return Ok(());
    }
    let (role, kind) = match turn.role {
        Role::System => ("system", "input_text"),
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    let mut texts = Vec::new();
    let flush = |texts: &mut Vec<Value>, input: &mut Vec<Value>| {
        if !texts.is_empty() {
            let content = std::mem::take(texts);
            input.push(json!({"type": "message", "role": role, "content": content}));
        }
    };
    for part in &turn.parts {
        if let Part::Text(text) = part {
            texts.push(json!({"type": kind, "text": text}));
            continue;
        }
        if let (Part::Image(image), Role::User) = (part, turn.role) {
            let url = image.url();
            texts.push(json!({"type": "input_image", "image_url": url, "detail": "auto"}));
            continue;
        }
        flush(&mut texts, input);
        match part {
            Part::Text(_) => {}
            Part::Image(_) => return Err(crate::unsupported_media("input_image")),
            Part::Reasoning(thought) => match &thought.signature {
                Some(signature) => {
                    let summary = match thought.text.as_str() {
                        "" => json!([]),
                        text => json!([{"type": "summary_text", "text": text}]),
                    };
                    input.push(json!(
                        {"type": "reasoning", "summary": summary, "encrypted_content": signature}
                    ));
                }
                None => losses.add_dropped("reasoning without a signature"),
            },
            Part::Call(call) => input.push(json!({
                "type": "function_call", "call_id": call.id, "name": call.name,
                "arguments": call.arguments,
            })),
            Part::Result { id, content, is_error: failed } => {
                if *failed {
                    losses.add_approximated("is_error of a tool result");
                }
                let output = if *failed { format!("Error: {content}") } else { content.clone() };
                input.push(json!(
                    {"type": "function_call_output", "call_id": id, "output": output}
                ));
            }
            Part::Media(kind) => return Err(crate::unsupported_media(kind)),
        }
    }
    flush(&mut texts, input);
    Ok(())
}

/// Converts a tool. Always writes `strict`, because its default is true in this format but false in
/// the others.
fn write_tool(tool: &Tool) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict.unwrap_or(false),
    })
}
