//! Builds a request from a [`ModelRequest`] and a model's parameters.

use proctor_types::{Fault, FaultLayer, ModelRequest, ModelSpec, ToolSpec};
use serde_json::{Map, Value, json};

use crate::codec::{Request, chat, message, neutral::Tool};

/// Fields that `extra_body` must not override, because the gateway relies on them.
const RESERVED_FIELDS: [&str; 7] =
    ["model", "messages", "tools", "stream", "n", "input", "contents"];

/// Returns the first reserved field that `extra_body` sets, if there is one.
pub(crate) fn reserved_override(model: &ModelSpec) -> Option<&'static str> {
    RESERVED_FIELDS.into_iter().find(|field| model.extra_body.contains_key(*field))
}

/// Checks the parts of a model's configuration that can be checked before the first request.
pub(crate) fn check_model(model: &ModelSpec) -> Result<(), Fault> {
    match reserved_override(model) {
        None => Ok(()),
        Some(field) => {
            let what = format!("model {}: extra_body.{field} cannot be set", model.name);
            Err(Fault::new(FaultLayer::Model, what).hint(format!("remove {field} from extra_body")))
        }
    }
}

/// Returns all fields of a chat request except its model and messages. `extra_body` is applied
/// last, field by field.
pub(crate) fn chat_fields(
    model: &ModelSpec,
    output_limit_field: &str,
    tools: &[ToolSpec],
    stream: bool,
) -> Map<String, Value> {
    let mut body = Map::new();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.iter().map(chat::write_tool_spec).collect());
    }
    let limited = ["max_tokens", "max_completion_tokens"]
        .iter()
        .any(|field| model.extra_body.contains_key(*field));
    let limit = model.max_output_tokens.filter(|_| !limited);
    let parameters = [
        (output_limit_field, json!(limit)),
        ("temperature", json!(model.temperature)),
        ("top_p", json!(model.top_p)),
        ("reasoning_effort", json!(model.reasoning_effort)),
        ("seed", json!(model.seed)),
    ];
    for (field, value) in parameters {
        if !value.is_null() {
            body.insert(field.into(), value);
        }
    }
    if stream {
        body.insert("stream".into(), true.into());
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    body.extend(model.extra_body.clone());
    body
}

/// Returns a request for an endpoint with a format other than chat, without the arm's parameters.
pub(crate) fn neutral_request(model: &ModelSpec, model_request: &ModelRequest) -> Request {
    let tool = |tool: &ToolSpec| Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        strict: None,
    };
    Request {
        model: model.name.clone(),
        turns: model_request.messages.iter().map(message::to_turn).collect(),
        tools: model_request.tools.iter().map(tool).collect(),
        max_output: model.max_output_tokens,
        ..Request::default()
    }
}

/// Sets cache breakpoints at the end of each part that the next request repeats: tools, system
/// prompt, and the last two user messages. The API accepts up to four breakpoints.
pub(crate) fn add_cache_breakpoints(body: &mut Map<String, Value>) {
    let mark = |block: &mut Value| {
        if let Some(block) = block.as_object_mut() {
            block.insert("cache_control".into(), json!({"type": "ephemeral"}));
        }
    };
    for name in ["tools", "system"] {
        let list = body.get_mut(name).and_then(Value::as_array_mut);
        list.and_then(|list| list.last_mut()).into_iter().for_each(mark);
    }
    let messages = body.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten();
    for message in messages.rev().filter(|message| message["role"] == "user").take(2) {
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        blocks.and_then(|blocks| blocks.last_mut()).into_iter().for_each(mark);
    }
}

/// Tests that requests send arguments back exactly as the model wrote them, even if they are
/// malformed, because the model must see its own conversation unchanged.
#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proctor_types::{Message, ModelRequest, ModelSpec, ToolCall, ToolSpec};
    use serde_json::{Value, json};

    use super::{chat_fields, check_model};
    use crate::sent_conversation::SentConversation;

    /// Returns the complete request body.
    fn body(model: &ModelSpec, limit_field: &str, model_request: &ModelRequest) -> Value {
        let mut written = SentConversation::default();
        written.update(model_request);
        let body = written.request_body(
            &model.name,
            &chat_fields(model, limit_field, &model_request.tools, false),
        );
        serde_json::from_slice(&body).expect("JSON")
    }

    fn model(extra_body: serde_json::Value) -> ModelSpec {
        serde_json::from_value(json!({
            "base_url": "http://h/v1", "name": "m", "temperature": 0.5, "seed": 7,
            "max_output_tokens": 100, "reasoning_effort": "low", "extra_body": extra_body,
        }))
        .expect("a model")
    }

    #[test]
    fn body_contains_only_configured_fields() {
        let call = ToolCall { id: "c".into(), name: "shell".into(), arguments: "{oops".into() };
        let extra = json!({"reasoning_content": "hm", "role": "user"});
        let ask = ModelRequest {
            messages: vec![
                Message::User { content: "hi".into() },
                Message::Assistant {
                    content: String::new(),
                    tool_calls: vec![call],
                    extra: extra.as_object().cloned().expect("an object"),
                    native: None,
                },
                Message::Tool { call_id: "c".into(), content: "no".into() },
            ],
            tools: vec![ToolSpec {
                name: "shell".into(),
                description: "Runs.".into(),
                parameters: json!({"type": "object"}),
            }],
        };
        let function = json!({"name": "shell", "arguments": "{oops"});
        let wanted = json!({
            "model": "m",
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null,
                 "tool_calls": [{"id": "c", "type": "function", "function": function}],
                 "reasoning_content": "hm"},
                {"role": "tool", "tool_call_id": "c", "content": "no"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "shell", "description": "Runs.", "parameters": {"type": "object"}}}],
            "max_tokens": 100, "temperature": 0.9, "reasoning_effort": "low", "seed": 7,
            "provider": {"order": ["a"]},
        });
        let extra_body = json!({"temperature": 0.9, "provider": {"order": ["a"]}});
        assert_eq!(body(&model(extra_body), "max_tokens", &ask), wanted);
    }

    #[test]
    fn output_limit_in_extra_body_replaces_the_default() {
        let ask = ModelRequest { messages: Vec::new(), tools: Vec::new() };
        let body = body(&model(json!({"max_completion_tokens": 9})), "max_tokens", &ask);
        assert_eq!(body["max_completion_tokens"], 9);
        assert_eq!(body.get("max_tokens"), None);
    }

    #[test]
    fn check_model_rejects_fields_that_the_gateway_fills() {
        for field in super::RESERVED_FIELDS {
            let fault = check_model(&model(json!({field: true}))).expect_err(field);
            assert!(fault.what.contains(&format!("extra_body.{field}")), "{fault}");
        }
        assert_eq!(check_model(&model(json!({"top_k": 3}))), Ok(()));
    }
}
