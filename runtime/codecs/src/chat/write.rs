use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls, ChatCompletionTool,
    ChatCompletionTools, FunctionCall, FunctionObject,
};
use proctor_types::{Api, ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

use crate::{
    Losses,
    neutral::{Part, Request, ResponseFormat, Role, Tool, ToolChoice, Turn},
};

pub fn write_request(request: &Request, losses: &mut Losses) -> Result<Map<String, Value>, String> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    let mut messages = Vec::with_capacity(request.turns.len());
    for turn in &request.turns {
        write_turn(turn, &mut messages, losses)?;
    }
    body.insert("messages".into(), messages.into());
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(write_tool).collect());
        if let Some(choice) = &request.tool_choice {
            body.insert("tool_choice".into(), write_tool_choice(choice));
        }
        if let Some(parallel) = request.allows_parallel_calls {
            body.insert("parallel_tool_calls".into(), parallel.into());
        }
    }
    let stop = (!request.stop_sequences.is_empty()).then_some(&request.stop_sequences);
    let shape = request.response_format.as_ref().map(|shape| match shape {
        ResponseFormat::Json => json!({"type": "json_object"}),
        ResponseFormat::Schema { name, schema, strict } => {
            let mut given = json!({"name": name, "schema": schema});
            if let Some(strict) = strict {
                given["strict"] = (*strict).into();
            }
            json!({"type": "json_schema", "json_schema": given})
        }
    });
    for (field, value) in [
        ("max_tokens", json!(request.max_output)),
        ("temperature", json!(request.temperature)),
        ("top_p", json!(request.top_p)),
        ("stop", json!(stop)),
        ("seed", json!(request.seed)),
        ("response_format", json!(shape)),
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

/// Writes a neutral turn, which may contain both results and text. Each result becomes a separate
/// message before the text, because endpoints require results directly after the calls.
fn write_turn(turn: &Turn, messages: &mut Vec<Value>, losses: &mut Losses) -> Result<(), String> {
    if let Some(items) = turn.native_items(Api::Chat) {
        messages.extend(items.iter().cloned());
        return Ok(());
    }
    let (mut text, mut thought, mut calls) = (Vec::new(), String::new(), Vec::new());
    let mut shown = Vec::new();
    for part in &turn.parts {
        match part {
            Part::Text(piece) => {
                text.push(piece.as_str());
                shown.push(json!({"type": "text", "text": piece}));
            }
            Part::Image(image) if turn.role == Role::User => {
                shown.push(json!({"type": "image_url", "image_url": {"url": image.url()}}));
            }
            Part::Image(_) => return Err(super::super::unsupported_media("image_url")),
            Part::Reasoning(reasoning) => {
                thought.push_str(&reasoning.text);
                if reasoning.signature.is_some() {
                    losses.add_dropped("the signature of a reasoning block");
                }
            }
            Part::Call(one) => calls.push(write_call(one)),
            Part::Result { id, content, is_error: failed } => {
                if *failed {
                    losses.add_approximated("is_error of a tool result");
                }
                let content = if *failed { format!("Error: {content}") } else { content.clone() };
                let message = json!({"role": "tool", "tool_call_id": id, "content": content});
                // Insert the result directly after the call, before images from other results of
                // the same response.
                let before = |message: &Value| message["role"] != "user";
                let at = messages.iter().rposition(before).map_or(messages.len(), |at| at + 1);
                messages.insert(at, message);
            }
            Part::Media(kind) => return Err(super::super::unsupported_media(kind)),
        }
    }
    let content = text.join("\n\n");
    match turn.role {
        Role::System => messages.push(json!({"role": "system", "content": content})),
        // Use a list of parts only if necessary, because some endpoints reject lists.
        Role::User if shown.len() > text.len() => {
            messages.push(json!({"role": "user", "content": shown}));
        }
        Role::User if text.is_empty() && !turn.parts.is_empty() => {}
        Role::User => messages.push(json!({"role": "user", "content": content})),
        Role::Assistant => {
            let mut message = json!({"role": "assistant", "content": content});
            if text.is_empty() && !calls.is_empty() {
                message["content"] = Value::Null;
            }
            // Only models that reason between calls send reasoning, and such models expect it back.
            if !thought.is_empty() {
                message["reasoning_content"] = thought.into();
            }
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            // Merge consecutive assistant turns. The Responses format splits one response into
            // several turns.
            match messages.last_mut().filter(|last| last["role"] == "assistant") {
                Some(last) => append_message(last, message),
                None => messages.push(message),
            }
        }
    }
    Ok(())
}

/// Appends an assistant message to the previous one.
fn append_message(previous_message: &mut Value, mut message: Value) {
    for field in ["content", "reasoning_content"] {
        let Some(more) = message[field].as_str().filter(|more| !more.is_empty()) else { continue };
        let before = previous_message[field].as_str().unwrap_or_default();
        let joined =
            if before.is_empty() { more.to_owned() } else { format!("{before}\n\n{more}") };
        previous_message[field] = joined.into();
    }
    if let Some(more) = message["tool_calls"].as_array_mut() {
        match previous_message["tool_calls"].as_array_mut() {
            Some(calls) => calls.append(more),
            None => previous_message["tool_calls"] = std::mem::take(more).into(),
        }
    }
    let silent = previous_message["content"].as_str().is_some_and(str::is_empty);
    if silent && previous_message["tool_calls"].is_array() {
        previous_message["content"] = Value::Null;
    }
}

fn write_tool(tool: &Tool) -> Value {
    function(&tool.name, &tool.description, &tool.parameters, tool.strict)
}

/// Converts a function definition to JSON, using async-openai's types.
fn function(name: &str, description: &str, parameters: &Value, strict: Option<bool>) -> Value {
    let function = FunctionObject {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        parameters: Some(parameters.clone()),
        strict,
    };
    json!(ChatCompletionTools::Function(ChatCompletionTool { function }))
}

pub fn write_tool_spec(tool: &ToolSpec) -> Value {
    function(&tool.name, &tool.description, &tool.parameters, None)
}

/// Converts a call. Its arguments stay as the model wrote them.
pub fn write_call(call: &ToolCall) -> Value {
    let (name, arguments) = (call.name.clone(), call.arguments.clone());
    let function = FunctionCall { name, arguments };
    let call = ChatCompletionMessageToolCall { id: call.id.clone(), function };
    json!(ChatCompletionMessageToolCalls::Function(call))
}

fn write_tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Never => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
    }
}
