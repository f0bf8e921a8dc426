use proctor_types::ToolCall;
use serde_json::{Map, Value};

use crate::{
    Losses,
    chat::join_text,
    image::Image,
    neutral::{Part, Reasoning, Request, ResponseFormat, Role, Tool, ToolChoice, Turn},
    tool::functions,
};

/// Fields that the codec reads, or that need no translation. `store` has no effect, because nothing
/// is stored here. Content that `include` requests is always sent if available.
const KNOWN_FIELDS: [&str; 13] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "text",
    "stream",
    "store",
    "include",
];

pub fn read_request(body: &Map<String, Value>, losses: &mut Losses) -> Result<Request, String> {
    let field = |name: &str| body.get(name).unwrap_or(&Value::Null);
    losses.add_unknown_fields("", body, &KNOWN_FIELDS);
    let mut turns = Vec::new();
    if let Some(text) = field("instructions").as_str().filter(|text| !text.is_empty()) {
        let parts = vec![Part::Text(text.to_owned())];
        turns.push(Turn::new(Role::System, parts));
    }
    match field("input") {
        Value::String(text) => {
            turns.push(Turn::new(Role::User, vec![Part::Text(text.clone())]));
        }
        Value::Array(items) => {
            for (index, one) in items.iter().enumerate() {
                turns.extend(read_input_item(one, index, losses)?);
            }
        }
        _ => return Err("input: must be text or an array of items".into()),
    }
    Ok(Request {
        model: field("model").as_str().unwrap_or_default().to_owned(),
        turns,
        tools: read_tools(field("tools"), losses)?,
        tool_choice: read_tool_choice(field("tool_choice"), losses),
        allows_parallel_calls: field("parallel_tool_calls").as_bool(),
        max_output: field("max_output_tokens").as_u64(),
        temperature: field("temperature").as_f64(),
        top_p: field("top_p").as_f64(),
        stop_sequences: Vec::new(),
        seed: None,
        response_format: read_response_format(field("text"), losses),
        is_streaming: field("stream") == &Value::Bool(true),
    })
}

fn read_input_item(
    item: &Value,
    index: usize,
    losses: &mut Losses,
) -> Result<Option<Turn>, String> {
    let place = format!("input[{index}]");
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let one = |role: Role, part: Part| Ok(Some(Turn::new(role, vec![part])));
    match item["type"].as_str().unwrap_or("message") {
        "message" => {
            let role = match item["role"].as_str().unwrap_or_default() {
                "user" => Role::User,
                "assistant" => Role::Assistant,
                "system" | "developer" => Role::System,
                other => return Err(format!("{place}.role: unknown role {other:?}")),
            };
            let parts = read_content(&item["content"], &place)?;
            Ok(Some(Turn::new(role, parts)))
        }
        "function_call" => {
            let call =
                ToolCall { id: text("call_id"), name: text("name"), arguments: text("arguments") };
            one(Role::Assistant, Part::Call(call))
        }
        "function_call_output" => {
            let output = read_content(&item["output"], &place)?;
            let content = join_text(&output);
            let mut parts = vec![Part::Result { id: text("call_id"), content, is_error: false }];
            parts.extend(Part::non_text_parts(output, losses));
            Ok(Some(Turn::new(Role::User, parts)))
        }
        "reasoning" => {
            let parts = |name: &str| -> String {
                let list = item[name].as_array().into_iter().flatten();
                let texts = list.filter_map(|part| part["text"].as_str());
                texts.collect::<Vec<_>>().join("\n\n")
            };
            let (summary, whole) = (parts("summary"), parts("content"));
            let text = if whole.is_empty() { summary } else { whole };
            let signature = item["encrypted_content"].as_str().map(ToOwned::to_owned);
            if text.is_empty() && signature.is_none() {
                return Ok(None);
            }
            one(Role::Assistant, Part::Reasoning(Reasoning { text, signature }))
        }
        // Free-form calls and the provider's own tool activity have no counterpart in other formats.
        other => {
            losses.add_dropped(format!("an item of type {other}"));
            Ok(None)
        }
    }
}

fn read_content(content: &Value, location: &str) -> Result<Vec<Part>, String> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Part::Text(text.clone())]),
        Value::Array(parts) => Ok(parts
            .iter()
            .map(|part| match part["type"].as_str().unwrap_or_default() {
                "input_text" | "output_text" | "text" | "refusal" => {
                    let text = part["text"].as_str().or(part["refusal"].as_str());
                    Part::Text(text.unwrap_or_default().to_owned())
                }
                "input_image" => {
                    let url = part["image_url"].as_str();
                    Part::image(url.and_then(Image::from_url), "input_image")
                }
                other => Part::Media(other.to_owned()),
            })
            .collect()),
        _ => Err(format!("{location}.content: must be text or an array of parts")),
    }
}

fn read_tools(tools: &Value, losses: &mut Losses) -> Result<Vec<Tool>, String> {
    functions(tools, "function", losses)
        .into_iter()
        .map(|(index, tool)| Tool::read(tool, "parameters", &format!("tools[{index}]")))
        .collect()
}

fn read_tool_choice(choice: &Value, losses: &mut Losses) -> Option<ToolChoice> {
    if choice.is_null() {
        return None;
    }
    let named = (choice["type"] == "function")
        .then(|| ToolChoice::Named(choice["name"].as_str().unwrap_or_default().to_owned()));
    let read = choice.as_str().and_then(ToolChoice::from_openai).or(named);
    if read.is_none() {
        losses.add_dropped("tool_choice");
    }
    read
}

fn read_response_format(text: &Value, losses: &mut Losses) -> Option<ResponseFormat> {
    if let Some(text) = text.as_object() {
        losses.add_unknown_fields("text.", text, &["format"]);
    }
    let format = &text["format"];
    ResponseFormat::read(format["type"].as_str()?, format)
}
