//! Rewrites reasoning and its signatures for strict endpoints.

use proctor_types::Api;
use serde_json::{Map, Value, json};

use super::body::{change_assistant_messages, change_each, drop_field, items};

/// For calls that another model made, Gemini accepts this value instead of a signature.
const PLACEHOLDER_SIGNATURE: &str = "skip_thought_signature_validator";

pub(super) fn sign_unsigned_calls(api: Api, body: &mut Map<String, Value>) -> bool {
    match api {
        Api::Chat => change_assistant_messages(body, |message| {
            let Some(first) = items(message.get_mut("tool_calls")).next() else { return false };
            if first["extra_content"]["google"]["thought_signature"].is_string() {
                return false;
            }
            first["extra_content"] =
                json!({"google": {"thought_signature": PLACEHOLDER_SIGNATURE}});
            true
        }),
        Api::Gemini => {
            let turns = items(body.get_mut("contents")).filter(|turn| turn["role"] == "model");
            change_each(turns, |turn| {
                let first =
                    items(turn.get_mut("parts")).find(|part| part.get("functionCall").is_some());
                let unsigned = first.filter(|part| part.get("thoughtSignature").is_none());
                unsigned.is_some_and(|part| {
                    part["thoughtSignature"] = PLACEHOLDER_SIGNATURE.into();
                    true
                })
            })
        }
        Api::Messages | Api::Responses => false,
    }
}

/// Replaces the signatures of calls with the one that means "none". Removes all other signatures.
pub(super) fn replace_signatures(api: Api, body: &mut Map<String, Value>) -> bool {
    let replace = |signature: &mut Value| {
        let is_foreign = signature.as_str().is_some_and(|one| one != PLACEHOLDER_SIGNATURE);
        if is_foreign {
            *signature = PLACEHOLDER_SIGNATURE.into();
        }
        is_foreign
    };
    match api {
        Api::Chat => change_assistant_messages(body, |message| {
            change_each(items(message.get_mut("tool_calls")), |call| {
                call.pointer_mut("/extra_content/google/thought_signature").is_some_and(replace)
            })
        }),
        Api::Gemini => change_each(items(body.get_mut("contents")), |content| {
            change_each(items(content.get_mut("parts")), |part| {
                if part.get("functionCall").is_some() {
                    return part.get_mut("thoughtSignature").is_some_and(replace);
                }
                drop_field(part, "thoughtSignature")
            })
        }),
        Api::Messages | Api::Responses => false,
    }
}

/// Whether an item of a Responses conversation comes from the model.
fn is_own_item(item: &Value) -> bool {
    match item["type"].as_str() {
        None | Some("message") => item["role"] == "assistant",
        Some(kind) => !kind.ends_with("_output"),
    }
}

/// Removes reasoning that is not followed by another item of the model. Such reasoning comes from a
/// response without text and calls.
pub(super) fn drop_lone_reasoning(body: &mut Map<String, Value>) -> bool {
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let before = items.len();
    let mut is_followed = false;
    let mut out: Vec<Value> = Vec::with_capacity(before);
    for item in std::mem::take(items).into_iter().rev() {
        if item["type"] != "reasoning" {
            is_followed = is_own_item(&item);
        } else if !is_followed {
            continue;
        }
        out.push(item);
    }
    out.reverse();
    *items = out;
    items.len() != before
}

/// Removes encrypted reasoning, except from the newest turn that has some. The other items of older
/// turns lose their ids, because an item with an id must be sent together with the reasoning that
/// it was returned with.
pub(super) fn keep_newest_reasoning(body: &mut Map<String, Value>) -> bool {
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let is_encrypted =
        |item: &Value| item["type"] == "reasoning" && item["encrypted_content"].is_string();
    let newest = items.iter().rposition(is_encrypted).unwrap_or_default();
    let before_turn = items[..newest].iter().rposition(|item| !is_own_item(item));
    let start = before_turn.map_or(0, |at| at + 1);
    if !items[..start].iter().any(is_encrypted) {
        return false;
    }
    let mut turn = items.split_off(start);
    items.retain(|item| !is_encrypted(item));
    for item in items.iter_mut().filter(|item| is_own_item(item)) {
        drop_field(item, "id");
    }
    items.append(&mut turn);
    true
}

/// Repeats a turn's reasoning before each of its calls. The copies have no id, because an id may
/// occur only once in a request.
pub(super) fn repeat_reasoning_before_calls(body: &mut Map<String, Value>) -> bool {
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let before = items.len();
    let mut thought: Option<Value> = None;
    let mut out: Vec<Value> = Vec::with_capacity(before);
    for item in std::mem::take(items) {
        let is_call = item["type"] == "function_call";
        if item["type"] == "reasoning" {
            thought = Some(item.clone());
        } else if !is_call && item["role"] != "assistant" {
            thought = None;
        }
        let has_reasoning = out.last().is_some_and(|last| last["type"] == "reasoning");
        if is_call
            && !has_reasoning
            && let Some(thought) = &thought
        {
            let mut again = thought.clone();
            drop_field(&mut again, "id");
            out.push(again);
        }
        out.push(item);
    }
    *items = out;
    items.len() != before
}

/// Removes thinking blocks, except from messages that contain nothing else.
pub(super) fn drop_thinking(body: &mut Map<String, Value>) -> bool {
    change_assistant_messages(body, |message| {
        let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) else {
            return false;
        };
        let is_thinking =
            |block: &Value| block["type"] == "thinking" || block["type"] == "redacted_thinking";
        let changes = blocks.iter().any(is_thinking) && !blocks.iter().all(is_thinking);
        if changes {
            blocks.retain(|block| !is_thinking(block));
        }
        changes
    })
}

pub(super) fn drop_encrypted_reasoning(body: &mut Map<String, Value>) -> bool {
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let reasoning = items.iter_mut().filter(|item| item["type"] == "reasoning");
    let changed = change_each(reasoning, |item| drop_field(item, "encrypted_content"));
    if changed {
        let says = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        items.retain(|item| {
            item["type"] != "reasoning" || says(&item["summary"]) || says(&item["content"])
        });
    }
    changed
}
