use proctor_types::ToolCall;
use serde_json::{Map, Value};

use crate::{
    Losses,
    image::Image,
    neutral::{Part, Reasoning, Request, ResponseFormat, Role, Tool, ToolChoice, Turn},
    tool::functions,
};

/// Fields that the codec reads, or that need no translation.
const KNOWN_FIELDS: [&str; 18] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "response_format",
    "stream",
    "stream_options",
    "n",
    "functions",
    "function_call",
    "reasoning_effort",
];

pub fn read_request(body: &Map<String, Value>, losses: &mut Losses) -> Result<Request, String> {
    let field = |name: &str| body.get(name).unwrap_or(&Value::Null);
    losses.add_unknown_fields("", body, &KNOWN_FIELDS);
    if field("n").as_u64().is_some_and(|n| n > 1) {
        return Err("n: only one choice is supported".into());
    }
    if !field("functions").is_null() || !field("function_call").is_null() {
        return Err("functions: unsupported; use tools".into());
    }
    if !field("reasoning_effort").is_null() {
        losses.add_dropped("reasoning_effort");
    }
    let messages = field("messages").as_array().ok_or("messages: must be an array")?;
    let mut turns = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        turns.push(read_turn(message, index, losses)?);
    }
    let stop = match field("stop") {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).map(Into::into).collect(),
        _ => Vec::new(),
    };
    let max_output = ["max_completion_tokens", "max_tokens"].iter();
    Ok(Request {
        model: field("model").as_str().unwrap_or_default().to_owned(),
        turns,
        tools: read_tools(field("tools"), losses)?,
        tool_choice: read_tool_choice(field("tool_choice"), losses),
        allows_parallel_calls: field("parallel_tool_calls").as_bool(),
        max_output: max_output.filter_map(|name| field(name).as_u64()).next(),
        temperature: field("temperature").as_f64(),
        top_p: field("top_p").as_f64(),
        stop_sequences: stop,
        seed: field("seed").as_i64(),
        response_format: read_response_format(field("response_format")),
        is_streaming: field("stream") == &Value::Bool(true),
    })
}

fn read_turn(message: &Value, index: usize, losses: &mut Losses) -> Result<Turn, String> {
    let place = format!("messages[{index}]");
    let object = message.as_object().ok_or_else(|| format!("{place}: must be an object"))?;
    let mut parts = Vec::new();
    let role = match message["role"].as_str().unwrap_or_default() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => {
            let id = message["tool_call_id"].as_str();
            let id = id.ok_or_else(|| format!("{place}.tool_call_id: missing"))?.to_owned();
            let mut texts = Vec::new();
            read_content(&message["content"], &place, &mut texts, losses)?;
            let content = join_text(&texts);
            let result = Part::Result { id, content, is_error: false };
            parts.push(result);
            parts.extend(Part::non_text_parts(texts, losses));
            return Ok(Turn::new(Role::User, parts));
        }
        other => return Err(format!("{place}.role: unknown role {other:?}")),
    };
    if role == Role::Assistant {
        parts.extend(read_reasoning(message));
    }
    read_content(&message["content"], &place, &mut parts, losses)?;
    if let Some(refusal) = message["refusal"].as_str() {
        parts.push(Part::Text(refusal.to_owned()));
    }
    for (at, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let name = call["function"]["name"].as_str();
        let name = name.ok_or_else(|| format!("{place}.tool_calls[{at}]: no function name"))?;
        let arguments = match &call["function"]["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        parts.push(Part::Call(ToolCall { id, name: name.to_owned(), arguments }));
    }
    let known = [
        "role",
        "content",
        "refusal",
        "tool_calls",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "name",
        "annotations",
        "audio",
        "function_call",
        "provider_specific_fields",
    ];
    losses.add_unknown_fields("messages[].", object, &known);
    if object.contains_key("name") {
        losses.add_dropped("messages[].name");
    }
    Ok(Turn::new(role, parts))
}

/// Returns the reasoning of an assistant message. Prefers the encrypted form over the plain text.
pub fn read_reasoning(message: &Value) -> Vec<Part> {
    let plain = ["reasoning_content", "reasoning"];
    let plain = plain.iter().find_map(|name| message[*name].as_str()).unwrap_or_default();
    let details = message["reasoning_details"].as_array().into_iter().flatten();
    let signed = details.filter_map(|detail| {
        let signature = Some(detail["signature"].as_str()?.to_owned());
        // In a stream, the text arrives in a separate fragment, before its signature.
        let text = detail["text"].as_str().unwrap_or(plain).to_owned();
        Some(Part::Reasoning(Reasoning { text, signature }))
    });
    let signed: Vec<_> = signed.collect();
    if signed.is_empty() && !plain.is_empty() {
        return vec![Part::Reasoning(Reasoning { text: plain.to_owned(), signature: None })];
    }
    signed
}

/// Reads content: text, `null`, or a list of parts.
fn read_content(
    content: &Value,
    location: &str,
    parts: &mut Vec<Part>,
    losses: &mut Losses,
) -> Result<(), String> {
    match content {
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => parts.push(Part::Text(text.clone())),
        Value::Array(list) => {
            for part in list {
                if part.get("cache_control").is_some() {
                    losses.add_dropped("messages[].content[].cache_control");
                }
                parts.push(match part["type"].as_str().unwrap_or("text") {
                    "text" | "refusal" => {
                        let text = part["text"].as_str().or(part["refusal"].as_str());
                        Part::Text(text.unwrap_or_default().to_owned())
                    }
                    "image_url" => {
                        let url = part["image_url"]["url"].as_str();
                        Part::image(url.and_then(Image::from_url), "image_url")
                    }
                    other => Part::Media(other.to_owned()),
                });
            }
        }
        _ => return Err(format!("{location}.content: must be text or an array of parts")),
    }
    Ok(())
}

/// Joins the text of the parts.
pub fn join_text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn read_tools(tools: &Value, losses: &mut Losses) -> Result<Vec<Tool>, String> {
    functions(tools, "function", losses)
        .into_iter()
        .map(|(index, tool)| {
            Tool::read(&tool["function"], "parameters", &format!("tools[{index}].function"))
        })
        .collect()
}

fn read_tool_choice(choice: &Value, losses: &mut Losses) -> Option<ToolChoice> {
    if choice.is_null() {
        return None;
    }
    let named = || Some(ToolChoice::Named(choice["function"]["name"].as_str()?.to_owned()));
    let read = choice.as_str().and_then(ToolChoice::from_openai).or_else(named);
    if read.is_none() {
        losses.add_dropped("tool_choice");
    }
    read
}

fn read_response_format(format: &Value) -> Option<ResponseFormat> {
    ResponseFormat::read(format["type"].as_str()?, &format["json_schema"])
}
