use proctor_types::ToolCall;
use serde_json::{Map, Value};

use crate::{
    Losses,
    image::Image,
    neutral::{Part, Reasoning, Request, ResponseFormat, Role, Tool, ToolChoice, Turn},
    tool::functions,
};

/// Fields that the codec reads, or that need no translation.
const KNOWN_FIELDS: [&str; 11] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "max_tokens",
    "temperature",
    "top_p",
    "stop_sequences",
    "stream",
    "output_config",
];

pub fn read_request(body: &Map<String, Value>, losses: &mut Losses) -> Result<Request, String> {
    let field = |name: &str| body.get(name).unwrap_or(&Value::Null);
    losses.add_unknown_fields("", body, &KNOWN_FIELDS);
    let mut turns = Vec::new();
    let mut system = Vec::new();
    read_blocks(field("system"), "system", &mut system, losses)?;
    if !system.is_empty() {
        turns.push(Turn::new(Role::System, system));
    }
    let messages = field("messages").as_array().ok_or("messages: must be an array")?;
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}]");
        let role = match message["role"].as_str().unwrap_or_default() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            other => return Err(format!("{place}.role: unknown role {other:?}")),
        };
        if let Some(message) = message.as_object() {
            losses.add_unknown_fields("messages[].", message, &["role", "content"]);
        }
        let mut parts = Vec::new();
        read_blocks(&message["content"], &place, &mut parts, losses)?;
        turns.push(Turn::new(role, parts));
    }
    let (choice, parallel) = read_tool_choice(field("tool_choice"), losses);
    let stop = field("stop_sequences").as_array().into_iter().flatten();
    Ok(Request {
        model: field("model").as_str().unwrap_or_default().to_owned(),
        turns,
        tools: read_tools(field("tools"), losses)?,
        tool_choice: choice,
        allows_parallel_calls: parallel,
        max_output: field("max_tokens").as_u64(),
        temperature: field("temperature").as_f64(),
        top_p: field("top_p").as_f64(),
        stop_sequences: stop.filter_map(Value::as_str).map(Into::into).collect(),
        seed: None,
        response_format: read_response_format(field("output_config"), losses),
        is_streaming: field("stream") == &Value::Bool(true),
    })
}

/// Reads text or content blocks.
fn read_blocks(
    content: &Value,
    location: &str,
    parts: &mut Vec<Part>,
    losses: &mut Losses,
) -> Result<(), String> {
    let list = match content {
        Value::Null => return Ok(()),
        Value::String(text) if text.is_empty() => return Ok(()),
        Value::String(text) => {
            parts.push(Part::Text(text.clone()));
            return Ok(());
        }
        Value::Array(list) => list,
        _ => return Err(format!("{location}.content: must be text or an array of blocks")),
    };
    for (at, block) in list.iter().enumerate() {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        if block.get("cache_control").is_some_and(|mark| !mark.is_null()) {
            losses.add_dropped("cache_control");
        }
        match block["type"].as_str().unwrap_or_default() {
            "text" => parts.push(Part::Text(text("text"))),
            "thinking" => {
                let signature = Some(text("signature")).filter(|signature| !signature.is_empty());
                parts.push(Part::Reasoning(Reasoning { text: text("thinking"), signature }));
            }
            "redacted_thinking" => losses.add_dropped("redacted_thinking"),
            "tool_use" => parts.push(Part::Call(ToolCall {
                id: text("id"),
                name: text("name"),
                arguments: block["input"].to_string(),
            })),
            "tool_result" => {
                let mut inner = Vec::new();
                read_blocks(
                    &block["content"],
                    &format!("{location}.content[{at}]"),
                    &mut inner,
                    losses,
                )?;
                parts.push(Part::Result {
                    id: text("tool_use_id"),
                    content: crate::chat::join_text(&inner),
                    is_error: block["is_error"] == true,
                });
                parts.extend(Part::non_text_parts(inner, losses));
            }
            "image" => parts.push(Part::image(Image::from_source(&block["source"]), "image")),
            kind @ ("document" | "container_upload") => {
                parts.push(Part::Media(kind.to_owned()));
            }
            // Names of deferred tools, and the provider's own tool activity, have no counterpart in
            // other formats.
            other => losses.add_dropped(format!("a block of type {other}")),
        }
    }
    Ok(())
}

fn read_tools(tools: &Value, losses: &mut Losses) -> Result<Vec<Tool>, String> {
    let mut read = Vec::new();
    for (index, tool) in functions(tools, "custom", losses) {
        if let Some(tool) = tool.as_object() {
            let known = ["type", "name", "description", "input_schema", "strict", "cache_control"];
            losses.add_unknown_fields("tools[].", tool, &known);
            if tool.contains_key("cache_control") {
                losses.add_dropped("cache_control");
            }
        }
        read.push(Tool::read(tool, "input_schema", &format!("tools[{index}]"))?);
    }
    Ok(read)
}

fn read_tool_choice(choice: &Value, losses: &mut Losses) -> (Option<ToolChoice>, Option<bool>) {
    let parallel = choice["disable_parallel_tool_use"].as_bool().map(|off| !off);
    let choice = match choice["type"].as_str() {
        None => None,
        Some("auto") => Some(ToolChoice::Auto),
        Some("any") => Some(ToolChoice::Any),
        Some("none") => Some(ToolChoice::Never),
        Some("tool") => {
            Some(ToolChoice::Named(choice["name"].as_str().unwrap_or_default().to_owned()))
        }
        Some(_) => {
            losses.add_dropped("tool_choice");
            None
        }
    };
    (choice, parallel)
}

fn read_response_format(config: &Value, losses: &mut Losses) -> Option<ResponseFormat> {
    if let Some(config) = config.as_object() {
        // The arm sets the effort, so only the response format is read.
        losses.add_unknown_fields("output_config.", config, &["format"]);
    }
    let format = &config["format"];
    (format["type"] == "json_schema").then(|| ResponseFormat::Schema {
        name: "answer".into(),
        schema: format["schema"].clone(),
        strict: Some(true),
    })
}
