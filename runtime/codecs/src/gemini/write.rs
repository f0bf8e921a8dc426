use proctor_types::Api;
use serde_json::{Map, Value, json};

use crate::{
    Losses,
    image::Image,
    neutral::{Part, Request, ResponseFormat, Role, ToolChoice, Turn},
};

/// Replaces the signature of a call that was made through another API. Newer models reject calls
/// without a signature, but accept this value for conversations that started elsewhere.
const PLACEHOLDER_SIGNATURE: &str = "skip_thought_signature_validator";

pub fn write_request(request: &Request, losses: &mut Losses) -> Result<Map<String, Value>, String> {
    let mut body = Map::new();
    let head = request.turns.iter().take_while(|turn| turn.role == Role::System).count();
    let (head, rest) = request.turns.split_at(head);
    let mut writer = PartWriter::default();
    let mut system = Vec::new();
    for turn in head {
        writer.write(turn, &mut system, losses)?;
    }
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    let mut contents: Vec<(&str, Vec<Value>)> = Vec::new();
    for turn in rest {
        let role = match turn.role {
            Role::Assistant => "model",
            Role::User => "user",
            Role::System => {
                losses.add_approximated("a system message within the conversation");
                "user"
            }
        };
        let mut parts = Vec::new();
        writer.write(turn, &mut parts, losses)?;
        match contents.last_mut().filter(|(last, _)| *last == role) {
            Some((_, before)) => before.append(&mut parts),
            None if parts.is_empty() => {}
            None => contents.push((role, parts)),
        }
    }
    let contents = contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts}));
    body.insert("contents".into(), contents.collect());
    if !request.tools.is_empty() {
        let declared = request.tools.iter().map(|tool| {
            json!({"name": tool.name, "description": tool.description,
                "parametersJsonSchema": tool.parameters})
        });
        let declared: Vec<_> = declared.collect();
        body.insert("tools".into(), json!([{"functionDeclarations": declared}]));
        if let Some(choice) = &request.tool_choice {
            let config = match choice {
                ToolChoice::Auto => json!({"mode": "AUTO"}),
                ToolChoice::Never => json!({"mode": "NONE"}),
                ToolChoice::Any => json!({"mode": "ANY"}),
                ToolChoice::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
            };
            body.insert("toolConfig".into(), json!({"functionCallingConfig": config}));
        }
        if request.allows_parallel_calls == Some(false) {
            losses.add_dropped("one call at a time");
        }
    }
    let config = generation_config(request);
    if !config.is_empty() {
        body.insert("generationConfig".into(), config.into());
    }
    Ok(body)
}

fn generation_config(request: &Request) -> Map<String, Value> {
    let (mime, schema) = match &request.response_format {
        None => (Value::Null, Value::Null),
        Some(ResponseFormat::Json) => ("application/json".into(), Value::Null),
        Some(ResponseFormat::Schema { schema, .. }) => ("application/json".into(), schema.clone()),
    };
    let stop = (!request.stop_sequences.is_empty()).then_some(&request.stop_sequences);
    let fields = [
        ("maxOutputTokens", json!(request.max_output)),
        ("temperature", json!(request.temperature)),
        ("topP", json!(request.top_p)),
        ("stopSequences", json!(stop)),
        ("seed", json!(request.seed)),
        ("responseMimeType", mime),
        ("responseJsonSchema", schema),
    ];
    let said = fields.into_iter().filter(|(_, value)| !value.is_null());
    said.map(|(field, value)| (field.to_owned(), value)).collect()
}

/// Writes parts. A result must contain its function's name. In other formats, only the call has the
/// name.
#[derive(Default)]
struct PartWriter {
    calls: Vec<CallInfo>,
}

struct CallInfo {
    id: String,
    name: String,
    /// Whether the endpoint sent the call without an id. In that case, its result has no id either.
    lacks_id: bool,
}

impl PartWriter {
    fn write(
        &mut self,
        turn: &Turn,
        parts: &mut Vec<Value>,
        losses: &mut Losses,
    ) -> Result<(), String> {
        if let Some(items) = turn.native_items(Api::Gemini) {
            let calls = turn.parts.iter().filter_map(|part| match part {
                Part::Call(call) => Some(call),
                _ => None,
            });
            let sent = items.iter().filter(|part| part.get("functionCall").is_some());
            self.calls.extend(calls.zip(sent).map(|(call, sent)| CallInfo {
                id: call.id.clone(),
                name: call.name.clone(),
                lacks_id: sent["functionCall"]["id"].as_str().is_none_or(str::is_empty),
            }));
            parts.extend(items.iter().cloned());
            return Ok(());
        }
        for part in &turn.parts {
            match part {
                Part::Text(text) => parts.push(json!({ "text": text })),
                Part::Reasoning(_) => losses.add_dropped("reasoning"),
                Part::Call(call) => {
                    let (id, name) = (call.id.clone(), call.name.clone());
                    self.calls.push(CallInfo { id, name, lacks_id: false });
                    let args = super::response::arguments_object(&call.arguments);
                    parts.push(json!({
                        "functionCall": {"id": call.id, "name": call.name, "args": args},
                        "thoughtSignature": PLACEHOLDER_SIGNATURE,
                    }));
                    losses.add_approximated("the signature of a call");
                }
                Part::Result { id, content, is_error: failed } => {
                    let called = self.calls.iter().rev().find(|called| called.id == *id);
                    let name = called.map_or(id.as_str(), |called| called.name.as_str());
                    let key = if *failed { "error" } else { "output" };
                    let mut response = Map::new();
                    response.insert(key.into(), content.as_str().into());
                    let mut result = json!({"name": name, "response": response});
                    if !called.is_some_and(|called| called.lacks_id) {
                        result["id"] = id.as_str().into();
                    }
                    parts.push(json!({ "functionResponse": result }));
                }
                Part::Image(Image::Data { media_type, data }) => {
                    parts.push(json!({"inlineData": {"mimeType": media_type, "data": data}}));
                }
                Part::Image(Image::Url(_)) => {
                    let what = "image URLs are not supported for Gemini: send the image data";
                    return Err(what.to_owned());
                }
                Part::Media(kind) => return Err(crate::unsupported_media(kind)),
            }
        }
        Ok(())
    }
}
