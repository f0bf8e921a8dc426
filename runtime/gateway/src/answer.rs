//! A chat completion as an [`Answer`], leniently: the endpoints that call themselves compatible
//! differ in what they leave out, and typed enums would fail on what they add.

use proctor_types::{Answer, ToolCall, Usage};
use serde_json::{Map, Value};

/// Reads the first choice. `step` makes names for calls that came without an id.
///
/// The usage of the result is zero where the endpoint gave none; see [`usage`].
pub(crate) fn parse(body: &Value, step: u64) -> Result<Answer, String> {
    // Some gateways in front of models wrap an upstream failure into status 200.
    if let Some(error) = body.get("error").filter(|error| !error.is_null()) {
        return Err(format!("an error within status 200: {error}"));
    }
    let choice = body["choices"].get(0).ok_or("no choices")?;
    let message = choice["message"].as_object().ok_or("choices[0].message is not an object")?;
    let content = text(message.get("content"))?;
    let tool_calls = calls(message.get("tool_calls"), step)?;
    let extra: Map<String, Value> = message
        .iter()
        .filter(|(field, value)| {
            // Empty fields are left out: some endpoints refuse what they themselves sent.
            !matches!(field.as_str(), "role" | "content" | "tool_calls")
                && !value.is_null()
                && **value != Value::Array(Vec::new())
        })
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    let finish_reason = choice["finish_reason"].as_str().map(ToOwned::to_owned);
    let declined =
        message.get("refusal").and_then(Value::as_str).is_some_and(|refusal| !refusal.is_empty());
    let filtered = finish_reason.as_deref() == Some("content_filter");
    Ok(Answer {
        content,
        tool_calls,
        extra,
        finish_reason,
        refused: declined || filtered,
        usage: usage(body).unwrap_or_default(),
        cost_usd: None,
    })
}

/// Content is text, null, absent, or an array of parts of which the text counts.
fn text(content: Option<&Value>) -> Result<String, String> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            Ok(parts.iter().filter_map(|part| part["text"].as_str()).collect())
        }
        Some(_) => Err("choices[0].message.content is not text".into()),
    }
}

fn calls(calls: Option<&Value>, step: u64) -> Result<Vec<ToolCall>, String> {
    let calls = match calls {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return Err("choices[0].message.tool_calls is not an array".into()),
    };
    let read = |(index, call): (usize, &Value)| {
        let function = &call["function"];
        let name = function["name"].as_str();
        let name = name.ok_or(format!("tool_calls[{index}] names no function"))?.to_owned();
        let id = match call["id"].as_str() {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{step}_{index}"),
        };
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            // Some servers send the object itself.
            other => other.to_string(),
        };
        Ok(ToolCall { id, name, arguments })
    };
    calls.iter().enumerate().map(read).collect()
}

/// The endpoint's own count, where it gave input and output.
pub(crate) fn usage(body: &Value) -> Option<Usage> {
    let usage = body.get("usage")?;
    let input = usage["prompt_tokens"].as_u64()?;
    let output = usage["completion_tokens"].as_u64()?;
    let cached = usage["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        // DeepSeek's own name.
        .or_else(|| usage["prompt_cache_hit_tokens"].as_u64())
        .unwrap_or_default()
        .min(input);
    let reasoning =
        usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or_default();
    Some(Usage { input, output, cached, reasoning, estimated: false })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{parse, usage};

    fn message(message: Value) -> Value {
        json!({"choices": [{"message": message, "finish_reason": "stop"}]})
    }

    #[test]
    fn what_servers_leave_out_or_add_is_read() {
        let body = message(json!({
            "role": "assistant", "content": [{"type": "text", "text": "a"}, {"text": "b"}],
            "tool_calls": [
                {"function": {"name": "f", "arguments": {"x": 1}}},
                {"id": "", "type": "function", "function": {"name": "g"}},
            ],
            "reasoning_content": "hm", "refusal": null, "annotations": [], "audio": null,
        }));
        let answer = parse(&body, 4).expect("an answer");
        assert_eq!(answer.content, "ab");
        assert_eq!(answer.tool_calls[0].arguments, r#"{"x":1}"#);
        assert_eq!(answer.tool_calls[0].id, "call_4_0");
        assert_eq!(
            (answer.tool_calls[1].id.as_str(), answer.tool_calls[1].arguments.as_str()),
            ("call_4_1", "")
        );
        assert_eq!(Value::Object(answer.extra), json!({"reasoning_content": "hm"}));
        assert!(!answer.refused);
    }

    #[test]
    fn refusals_come_in_two_forms() {
        let declined = message(json!({"content": null, "refusal": "I will not."}));
        assert!(parse(&declined, 0).expect("an answer").refused);
        let mut filtered = message(json!({"content": ""}));
        filtered["choices"][0]["finish_reason"] = "content_filter".into();
        assert!(parse(&filtered, 0).expect("an answer").refused);
    }

    #[test]
    fn what_is_no_completion_says_why() {
        for (body, why) in [
            (json!({"choices": []}), "no choices"),
            (json!({"error": {"message": "upstream"}}), "upstream"),
            (json!({"choices": [{"text": "old"}]}), "message"),
            (message(json!({"content": 3})), "content"),
            (message(json!({"tool_calls": [{"function": {}}]})), "names no function"),
            (json!([]), "no choices"),
        ] {
            let error = parse(&body, 0).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn usage_needs_both_counts() {
        let half = json!({"usage": {"prompt_tokens": 3}});
        assert_eq!(usage(&half), None);
        let deepseek = json!({"usage": {
            "prompt_tokens": 3, "completion_tokens": 2, "prompt_cache_hit_tokens": 9}});
        assert_eq!(usage(&deepseek).expect("a usage").cached, 3, "never more than the input");
    }
}
