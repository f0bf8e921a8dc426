//! Rewrites reasoning and its signatures for strict endpoints.

use proctor_types::Api;
use serde_json::{Map, Value, json};

use super::body::{drop_field, each, items, on_assistants};

/// Gemini accepts it in place of the signature of a call that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn unsigned_calls(api: Api, body: &mut Map<String, Value>) -> bool {
    match api {
        Api::Chat => on_assistants(body, |message| {
            let Some(first) = items(message.get_mut("tool_calls")).next() else { return false };
            if first["extra_content"]["google"]["thought_signature"].is_string() {
                return false;
            }
            first["extra_content"] = json!({"google": {"thought_signature": NO_SIGNATURE}});
            true
        }),
        Api::Gemini => {
            let turns = items(body.get_mut("contents")).filter(|turn| turn["role"] == "model");
            each(turns, |turn| {
                let first =
                    items(turn.get_mut("parts")).find(|part| part.get("functionCall").is_some());
                let unsigned = first.filter(|part| part.get("thoughtSignature").is_none());
                unsigned.is_some_and(|part| {
                    part["thoughtSignature"] = NO_SIGNATURE.into();
                    true
                })
            })
        }
        Api::Messages | Api::Responses => false,
    }
}

pub(super) fn no_encrypted_reasoning(body: &mut Map<String, Value>) -> bool {
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let reasoning = items.iter_mut().filter(|item| item["type"] == "reasoning");
    let changed = each(reasoning, |item| drop_field(item, "encrypted_content"));
    if changed {
        let says = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        items.retain(|item| {
            item["type"] != "reasoning" || says(&item["summary"]) || says(&item["content"])
        });
    }
    changed
}
