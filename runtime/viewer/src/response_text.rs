//! The texts of a model's response, wherever the endpoint put them: content, reasoning, a refusal or
//! another field.

use proctor_types::ModelResponse;
use serde_json::{Map, Value};

use super::tool_calls::arguments_text;

/// Fields with the model's reasoning, in order of preference.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];
/// A field with the parts of the reasoning, each with a text, a summary or encrypted data.
const REASONING_PARTS: &str = "reasoning_details";
/// The field with a refusal. The gateway stores the refusals of every wire format in this field.
const REFUSAL_FIELD: &str = "refusal";
/// Maximum number of characters shown of another field. Encrypted data may be long.
const MAX_FIELD_CHARS: usize = 4_000;

/// Returns the model's reasoning, if the endpoint returned it.
pub fn model_reasoning(extra: &Map<String, Value>) -> String {
    let mut known = REASONING_FIELDS.iter().filter_map(|field| extra.get(*field));
    if let Some(value) = known.find(|value| !is_blank(value)) {
        return arguments_text(value);
    }
    let parts = extra.get(REASONING_PARTS).and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = parts
        .filter_map(|part| ["text", "summary"].iter().find_map(|field| part[*field].as_str()))
        .collect();
    texts.join("\n")
}

/// Returns the model's refusal, if the endpoint returned one apart from the content.
pub fn model_refusal(extra: &Map<String, Value>) -> String {
    extra
        .get(REFUSAL_FIELD)
        .filter(|value| !is_blank(value))
        .map(arguments_text)
        .unwrap_or_default()
}

/// Returns the name and the text of each vendor field that is neither reasoning nor a refusal.
pub fn other_fields(extra: &Map<String, Value>) -> Vec<(String, String)> {
    let others = extra.iter().filter(|(name, value)| !is_known(name) && !is_blank(value));
    let text = |value: &Value| -> String {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.chars().take(MAX_FIELD_CHARS).collect()
    };
    others.map(|(name, value)| (name.clone(), text(value))).collect()
}

/// Returns what the model wrote to its user: the content, the refusal or both.
pub fn said_text(response: &ModelResponse) -> String {
    join_texts(&response.content, &model_refusal(&response.extra))
}

/// Joins a message and a refusal, either of which may be empty.
pub fn join_texts(message: &str, refusal: &str) -> String {
    let both: Vec<&str> = [message, refusal].into_iter().filter(|text| !text.is_empty()).collect();
    both.join("\n")
}

fn is_known(field: &str) -> bool {
    REASONING_FIELDS.contains(&field) || [REASONING_PARTS, REFUSAL_FIELD].contains(&field)
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_outside_the_content_are_found() {
        for (extra, reasoning, refusal, others) in [
            (json!({ "refusal": "I won't." }), "", "I won't.", vec![]),
            (json!({ "refusal": null, "reasoning": "hm" }), "hm", "", vec![]),
            (json!({ "reasoning_content": "", "thinking": "a" }), "a", "", vec![]),
            (
                json!({ "reasoning_details": [{ "text": "one" }, { "summary": "two" }, { "data": "x" }] }),
                "one\ntwo",
                "",
                vec![],
            ),
            (
                json!({ "audio": { "transcript": "hello" }, "annotations": [], "index": 0 }),
                "",
                "",
                vec![("audio", r#"{"transcript":"hello"}"#), ("index", "0")],
            ),
        ] {
            let extra = extra.as_object().unwrap();
            assert_eq!(model_reasoning(extra), reasoning, "{extra:?}");
            assert_eq!(model_refusal(extra), refusal, "{extra:?}");
            let mut found = other_fields(extra);
            found.sort();
            let found: Vec<(&str, &str)> =
                found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            assert_eq!(found, others, "{extra:?}");
        }
        assert_eq!(join_texts("", "no"), "no");
        assert_eq!(join_texts("Sorry.", "no"), "Sorry.\nno");
    }
}
