//! Finds turns, calls and text in request bodies in every format.

use serde_json::{Map, Value};

/// Applies a change to each value. Returns whether any changed. Unlike `any`, it does not stop at
/// the first change.
pub(super) fn change_each<'a>(
    values: impl Iterator<Item = &'a mut Value>,
    mut change: impl FnMut(&mut Value) -> bool,
) -> bool {
    let mut changed = false;
    for value in values {
        changed |= change(value);
    }
    changed
}

/// Returns the items of a list, or no items if there is no list.
pub(super) fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Removes a field of an object. Returns whether it existed.
pub(super) fn drop_field(value: &mut Value, name: &str) -> bool {
    value.as_object_mut().is_some_and(|fields| fields.shift_remove(name).is_some())
}

/// Returns the messages in a body. `None` for Gemini and Responses.
pub(super) fn messages(body: &mut Map<String, Value>) -> Option<&mut Vec<Value>> {
    body.get_mut("messages")?.as_array_mut()
}

/// Changes each assistant message. Returns whether any changed.
pub(super) fn change_assistant_messages(
    body: &mut Map<String, Value>,
    mut change: impl FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    let assistants =
        items(body.get_mut("messages")).filter(|message| message["role"] == "assistant");
    change_each(assistants, |message| message.as_object_mut().is_some_and(&mut change))
}

/// Calls `change` on each object that contains a call's name and arguments: in chat turns, Messages
/// turns and Responses items.
pub(super) fn change_each_call(
    body: &mut Map<String, Value>,
    mut change: impl FnMut(&mut Map<String, Value>) -> bool,
) -> bool {
    let mut change = |call: &mut Value| call.as_object_mut().is_some_and(&mut change);
    let mut changed = false;
    for message in items(body.get_mut("messages")) {
        let functions = items(message.get_mut("tool_calls"));
        changed |= change_each(functions.filter_map(|call| call.get_mut("function")), &mut change);
        let blocks = items(message.get_mut("content"));
        changed |= change_each(blocks.filter(|block| block["type"] == "tool_use"), &mut change);
    }
    let calls = items(body.get_mut("input")).filter(|item| item["type"] == "function_call");
    change_each(calls, change) || changed
}

/// The kind of item that an id belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdKind {
    Call,
    Result,
    /// An item for which the gateway does not distinguish between calls and results.
    Other,
}

/// Calls `visit` for the id of each call and each result, in order.
pub(super) fn visit_ids(body: &mut Map<String, Value>, mut visit: impl FnMut(IdKind, &mut Value)) {
    for list in ["messages", "input"] {
        for message in items(body.get_mut(list)) {
            let of_item = match message["type"].as_str() {
                Some("function_call") => IdKind::Call,
                Some("function_call_output") => IdKind::Result,
                _ => IdKind::Other,
            };
            let of_message = if message["role"] == "tool" { IdKind::Result } else { IdKind::Other };
            for (name, of) in [("call_id", of_item), ("tool_call_id", of_message)] {
                message.get_mut(name).into_iter().for_each(|id| visit(of, id));
            }
            for call in items(message.get_mut("tool_calls")) {
                call.get_mut("id").into_iter().for_each(|id| visit(IdKind::Call, id));
            }
            for block in items(message.get_mut("content")) {
                let (is_use, is_result) =
                    (block["type"] == "tool_use", block["type"] == "tool_result");
                if is_use {
                    block.get_mut("id").into_iter().for_each(|id| visit(IdKind::Call, id));
                }
                let of = if is_result { IdKind::Result } else { IdKind::Other };
                block.get_mut("tool_use_id").into_iter().for_each(|id| visit(of, id));
            }
        }
    }
}

/// Whether a message's content is blank. Parts other than text are never blank.
pub(super) fn is_blank(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.iter().all(|part| {
            part["type"] == "text"
                && part["text"].as_str().is_none_or(|text| text.trim().is_empty())
        }),
        _ => false,
    }
}
