//! Requests that need no model: the model list and token counts.

use bytes::Bytes;
use proctor_types::{Api, ModelSpec};
use serde_json::{Value, json};

use crate::tokens;

/// Returns the model list, or the entry of a single model. The arm has only one model, which serves
/// all requests. If a client names another model, the arm's model is returned under that name.
pub(super) fn model_list(api: Api, model: &ModelSpec, model_name: Option<&str>) -> Value {
    let name = model_name.unwrap_or(&model.name);
    let listed = match api {
        Api::Chat | Api::Responses => {
            json!({"id": name, "object": "model", "created": 0, "owned_by": "proctor"})
        }
        Api::Messages => json!({
            "id": name, "type": "model", "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
        }),
        Api::Gemini => json!({
            "name": format!("models/{name}"),
            "displayName": name,
            "inputTokenLimit": model.context_window,
            "outputTokenLimit": model.max_output_tokens,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }),
    };
    match (api, model_name) {
        (_, Some(_)) => listed,
        (Api::Chat | Api::Responses, None) => json!({"object": "list", "data": [listed]}),
        (Api::Messages, None) => {
            json!({"data": [listed], "has_more": false, "first_id": name, "last_id": name})
        }
        (Api::Gemini, None) => json!({"models": [listed]}),
    }
}

/// Counts the tokens of all text in the request locally, with the same tokenizer for every model.
/// Nothing is sent, so nothing is charged.
pub(super) async fn count_tokens(api: Api, body: Bytes) -> Value {
    let counted = tokio::task::spawn_blocking(move || {
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        count_strings(&body)
    });
    let total = counted.await.unwrap_or_default();
    match api {
        Api::Gemini => json!({"totalTokens": total}),
        _ => json!({"input_tokens": total}),
    }
}

/// Counts the tokens of all strings except keys. Some keys, such as those in a schema, are part of
/// the text that the model sees, but an estimate can ignore them.
fn count_strings(value: &Value) -> u64 {
    match value {
        Value::String(text) => tokens::count(text),
        Value::Array(items) => items.iter().map(count_strings).sum(),
        Value::Object(fields) => fields.values().map(count_strings).sum(),
        _ => 0,
    }
}
