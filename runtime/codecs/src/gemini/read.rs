use proctor_types::ToolCall;
use serde_json::{Map, Value, json};

use super::schema::to_json_schema;
use crate::{
    Losses,
    image::Image,
    neutral::{Part, Reasoning, Request, ResponseFormat, Role, Tool, ToolChoice, Turn},
};

const KNOWN_FIELDS: [&str; 9] = [
    "model",
    "contents",
    "systemInstruction",
    "system_instruction",
    "tools",
    "toolConfig",
    "tool_config",
    "generationConfig",
    "generation_config",
];

const KNOWN_CONFIG_FIELDS: [&str; 9] = [
    "temperature",
    "topP",
    "maxOutputTokens",
    "stopSequences",
    "seed",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "candidateCount",
];

/// Returns a field by either of the two spellings that the API accepts.
fn get_either<'a>(body: &'a Map<String, Value>, camel: &str, snake: &str) -> &'a Value {
    body.get(camel).or_else(|| body.get(snake)).unwrap_or(&Value::Null)
}

pub fn read_request(body: &Map<String, Value>, losses: &mut Losses) -> Result<Request, String> {
    losses.add_unknown_fields("", body, &KNOWN_FIELDS);
    let config = get_either(body, "generationConfig", "generation_config");
    if let Some(config) = config.as_object() {
        losses.add_unknown_fields("generationConfig.", config, &KNOWN_CONFIG_FIELDS);
    }
    if config["candidateCount"].as_u64().is_some_and(|count| count > 1) {
        return Err("generationConfig.candidateCount: only one candidate is supported".into());
    }
    let mut reader = PartReader::default();
    let mut turns = Vec::new();
    let system = get_either(body, "systemInstruction", "system_instruction");
    let parts = match system {
        Value::String(text) => vec![Part::Text(text.clone())],
        _ => reader.read(&system["parts"], losses),
    };
    if !parts.is_empty() {
        turns.push(Turn::new(Role::System, parts));
    }
    let contents = body.get("contents").unwrap_or(&Value::Null);
    if let Value::String(text) = contents {
        turns.push(Turn::new(Role::User, vec![Part::Text(text.clone())]));
    } else {
        let list = contents.as_array().ok_or("contents: must be an array")?;
        for (index, content) in list.iter().enumerate() {
            let role = match content["role"].as_str().unwrap_or("user") {
                "user" | "function" => Role::User,
                "model" => Role::Assistant,
                other => return Err(format!("contents[{index}].role: unknown role {other:?}")),
            };
            turns.push(Turn::new(role, reader.read(&content["parts"], losses)));
        }
    }
    let stop = config["stopSequences"].as_array().into_iter().flatten();
    Ok(Request {
        model: String::new(),
        turns,
        tools: read_tools(body.get("tools").unwrap_or(&Value::Null))?,
        tool_choice: read_tool_choice(get_either(body, "toolConfig", "tool_config"), losses),
        allows_parallel_calls: None,
        max_output: config["maxOutputTokens"].as_u64(),
        temperature: config["temperature"].as_f64(),
        top_p: config["topP"].as_f64(),
        stop_sequences: stop.filter_map(Value::as_str).map(Into::into).collect(),
        seed: config["seed"].as_i64(),
        response_format: read_response_format(config),
        is_streaming: false,
    })
}

/// Reads parts. Calls and results are matched by id, or by name and order if there is no id.
#[derive(Default)]
struct PartReader {
    call_count: usize,
    /// Id and name of each call that has no result yet.
    open_calls: Vec<(String, String)>,
}

impl PartReader {
    fn read(&mut self, parts: &Value, losses: &mut Losses) -> Vec<Part> {
        let mut out = Vec::new();
        for part in parts.as_array().into_iter().flatten() {
            if part.get("thoughtSignature").is_some() {
                losses.add_dropped("thoughtSignature");
            }
            let call = part.get("functionCall").or_else(|| part.get("function_call"));
            let result = part.get("functionResponse").or_else(|| part.get("function_response"));
            if let Some(call) = call {
                out.push(self.call(call));
            } else if let Some(result) = result {
                out.push(self.result(result));
            } else if let Some(text) = part["text"].as_str() {
                let text = text.to_owned();
                out.push(if part["thought"] == true {
                    Part::Reasoning(Reasoning { text, signature: None })
                } else {
                    Part::Text(text)
                });
            } else if let Some(data) = part.get("inlineData").or_else(|| part.get("inline_data")) {
                let kind = data.get("mimeType").or_else(|| data.get("mime_type"));
                let image = Image::from_data(kind.unwrap_or(&Value::Null), &data["data"]);
                out.push(Part::image(image, "inlineData"));
            } else if let Some(kind) = part.as_object().and_then(|part| part.keys().next()) {
                out.push(Part::Media(kind.clone()));
            }
        }
        out
    }

    fn call(&mut self, call: &Value) -> Part {
        let name = call["name"].as_str().unwrap_or_default().to_owned();
        self.call_count += 1;
        let given = call["id"].as_str().filter(|id| !id.is_empty());
        let id = given.map_or_else(|| format!("call_{}", self.call_count), ToOwned::to_owned);
        self.open_calls.push((id.clone(), name.clone()));
        let arguments = match &call["args"] {
            Value::Null => json!({}).to_string(),
            args => args.to_string(),
        };
        Part::Call(ToolCall { id, name, arguments })
    }

    fn result(&mut self, result: &Value) -> Part {
        let name = result["name"].as_str().unwrap_or_default();
        let given = result["id"].as_str().filter(|id| !id.is_empty());
        let found = match given {
            Some(id) => self.open_calls.iter().position(|(open, _)| open == id),
            None => self.open_calls.iter().position(|(_, open)| open == name),
        };
        let id = match (found, given) {
            (Some(at), _) => self.open_calls.remove(at).0,
            (None, given) => given.unwrap_or(name).to_owned(),
        };
        let response = &result["response"];
        let only = |key: &str| match response.as_object() {
            Some(fields) if fields.len() == 1 => fields.get(key).and_then(Value::as_str),
            _ => None,
        };
        let failed = only("error");
        let said = failed.or_else(|| only("output")).or_else(|| only("result"));
        let content = said.map_or_else(|| response.to_string(), ToOwned::to_owned);
        Part::Result { id, content, is_error: failed.is_some() }
    }
}

fn read_tools(tools: &Value) -> Result<Vec<Tool>, String> {
    let mut out = Vec::new();
    for tool in tools.as_array().into_iter().flatten() {
        let declared = ["functionDeclarations", "function_declarations"];
        let declared = declared.iter().find_map(|name| tool[*name].as_array());
        for (index, one) in declared.into_iter().flatten().enumerate() {
            let name = one["name"].as_str();
            let name = name.ok_or_else(|| format!("functionDeclarations[{index}]: no name"))?;
            let given = ["parametersJsonSchema", "parameters_json_schema", "parameters"];
            let given = given.iter().find_map(|name| one.get(*name).filter(|one| !one.is_null()));
            out.push(Tool {
                name: name.to_owned(),
                description: one["description"].as_str().unwrap_or_default().to_owned(),
                parameters: given
                    .map_or_else(|| json!({"type": "object", "properties": {}}), to_json_schema),
                strict: None,
            });
        }
    }
    Ok(out)
}

fn read_tool_choice(config: &Value, losses: &mut Losses) -> Option<ToolChoice> {
    let calling = &config["functionCallingConfig"];
    let allowed = calling["allowedFunctionNames"].as_array();
    let allowed: Vec<_> = allowed.into_iter().flatten().filter_map(Value::as_str).collect();
    match (calling["mode"].as_str()?, allowed.as_slice()) {
        ("AUTO", _) => Some(ToolChoice::Auto),
        ("NONE", _) => Some(ToolChoice::Never),
        ("ANY", []) => Some(ToolChoice::Any),
        ("ANY", [one]) => Some(ToolChoice::Named((*one).to_owned())),
        ("ANY", _) => {
            losses.add_approximated("allowedFunctionNames");
            Some(ToolChoice::Any)
        }
        _ => {
            losses.add_dropped("toolConfig");
            None
        }
    }
}

fn read_response_format(config: &Value) -> Option<ResponseFormat> {
    if config["responseMimeType"] != "application/json" {
        return None;
    }
    let schema = [&config["responseJsonSchema"], &config["responseSchema"]];
    let schema = schema.into_iter().find(|schema| !schema.is_null());
    Some(schema.map_or(ResponseFormat::Json, |schema| ResponseFormat::Schema {
        name: "answer".into(),
        schema: to_json_schema(schema),
        strict: None,
    }))
}
