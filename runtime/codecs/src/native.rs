//! The assistant's turn in the endpoint's own format.
//!
//! A later request must return the turn exactly as the endpoint sent it: in the same order, and
//! with members that no other format has (signatures, encrypted reasoning, `extra_content`). The
//! neutral format cannot represent these, so each reader also collects the turn in the endpoint's
//! format.

use serde_json::{Map, Value, json};

/// Members that identify a value. Every fragment of a stream repeats them, so they are not
/// concatenated.
const IDENTITY_MEMBERS: [&str; 6] = ["type", "id", "format", "name", "object", "role"];

/// Merges a fragment of a streamed value into the previous fragments.
pub fn merge(target: &mut Map<String, Value>, fragment: &Map<String, Value>) {
    fragment.iter().for_each(|(name, more)| merge_member(target, name, more));
}

/// Merges a fragment of one member.
pub fn merge_member(target: &mut Map<String, Value>, name: &str, fragment: &Value) {
    if fragment.is_null() {
        return;
    }
    match (target.get_mut(name), fragment) {
        (Some(Value::String(before)), Value::String(text)) => {
            if IDENTITY_MEMBERS.contains(&name) {
                if !text.is_empty() {
                    before.clone_from(text);
                }
            // Some endpoints repeat the whole signature with each fragment. Others split it.
            } else if name != "signature" || before != text {
                before.push_str(text);
            }
        }
        (Some(Value::Array(before)), Value::Array(items)) => {
            items.iter().for_each(|item| merge_item(before, item));
        }
        (Some(Value::Object(before)), Value::Object(fields)) => merge(before, fields),
        (_, Value::Array(items)) => {
            let mut list = Vec::new();
            items.iter().for_each(|item| merge_item(&mut list, item));
            target.insert(name.to_owned(), list.into());
        }
        (_, more) => drop(target.insert(name.to_owned(), more.clone())),
    }
}

/// Adds an item of a streamed list. An item with an index continues the item with the same index
/// and type. An item without an index continues the last item if both are text of the same type and
/// the last one is not signed yet. Mistral's reasoning is a list of strings. Each fragment of a
/// stream has its own list, but Mistral accepts only one leading reasoning item in a turn.
fn merge_item(list: &mut Vec<Value>, item: &Value) {
    let Value::Object(piece) = item else { return list.push(item.clone()) };
    let kind = &item["type"];
    let same_kind = |one: &Value| kind.is_null() || one["type"].is_null() || one["type"] == *kind;
    let found = match piece.get("index").filter(|index| !index.is_null()) {
        Some(index) => {
            list.iter().rposition(|one| one.get("index") == Some(index) && same_kind(one))
        }
        None => list.len().checked_sub(1).filter(|last| {
            let last = &list[*last];
            let textual = ["text", "summary", "thinking"].iter().any(|name| {
                last[*name].is_string()
                    && (item[*name].is_string() || piece.contains_key("signature"))
            });
            let textual = textual || last["thinking"].is_array() && item["thinking"].is_array();
            let signed = last["signature"].as_str().is_some_and(|signature| !signature.is_empty());
            !kind.is_null()
                && last["type"] == *kind
                && textual
                && !signed
                && last.get("index").is_none()
        }),
    };
    match found.and_then(|at| list[at].as_object_mut()) {
        Some(before) => merge(before, piece),
        None => list.push(item.clone()),
    }
}

/// Whether a value has no content: only empty strings, flags, numbers and identifying members.
pub fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        Value::Object(fields) => are_blank(fields),
    }
}

/// Whether members have no content.
pub fn are_blank(fields: &Map<String, Value>) -> bool {
    let is_identity = |name: &str| name == "status" || IDENTITY_MEMBERS.contains(&name);
    fields.iter().all(|(name, value)| is_identity(name) || is_blank(value))
}

/// Removes null members, because some endpoints reject the `null` that they themselves sent.
pub fn remove_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null() && *value != json!([]));
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::merge;

    fn merge_all(pieces: &[Value]) -> Value {
        let mut all = Map::new();
        for piece in pieces {
            merge(&mut all, piece.as_object().expect("an object"));
        }
        all.into()
    }

    #[test]
    fn merge_joins_reasoning_details_by_index_and_type() {
        let piece = |detail: Value| json!({"reasoning_details": [detail]});
        let all = merge_all(&[
            piece(json!({"type": "reasoning.text", "index": 0, "text": "Let"})),
            piece(json!({"type": "reasoning.text", "index": 0, "text": " me"})),
            piece(json!({"type": "reasoning.text", "index": 0, "signature": "S"})),
            piece(json!({"type": "reasoning.encrypted", "index": 0, "id": "rs_1", "data": "E"})),
            piece(
                json!({"type": "reasoning.text", "index": 1, "text": "again", "signature": null}),
            ),
        ]);
        assert_eq!(
            all["reasoning_details"],
            json!([
                {"type": "reasoning.text", "index": 0, "text": "Let me", "signature": "S"},
                {"type": "reasoning.encrypted", "index": 0, "id": "rs_1", "data": "E"},
                {"type": "reasoning.text", "index": 1, "text": "again", "signature": null},
            ])
        );
    }

    #[test]
    fn merge_joins_details_without_an_index_until_they_are_signed() {
        let piece = |detail: Value| json!({"reasoning_details": [detail]});
        let all = merge_all(&[
            piece(json!({"type": "reasoning.text", "text": "a"})),
            piece(json!({"type": "reasoning.text", "text": "b"})),
            piece(json!({"type": "reasoning.text", "signature": "S"})),
            piece(json!({"type": "reasoning.text", "text": "c"})),
        ]);
        assert_eq!(
            all["reasoning_details"],
            json!([
                {"type": "reasoning.text", "text": "ab", "signature": "S"},
                {"type": "reasoning.text", "text": "c"},
            ])
        );
    }

    #[test]
    fn merge_joins_adjacent_lists_of_thoughts() {
        let thought =
            |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
        let mut last = thought("b");
        last["closed"] = true.into();
        let text = json!({"type": "text", "text": "c"});
        let mut whole = thought("ab");
        whole["closed"] = true.into();
        let piece = |part: &Value| json!({"content": [part]});
        let all = merge_all(&[piece(&thought("a")), piece(&last), piece(&text), piece(&last)]);
        assert_eq!(all["content"], json!([whole, text, last]));
    }

    #[test]
    fn merge_does_not_concatenate_identifying_members() {
        let all = merge_all(&[
            json!({"x": {"type": "t", "id": "1", "text": "a"}, "n": 1}),
            json!({"x": {"type": "t", "id": "1", "text": "b"}, "n": 2, "y": null}),
        ]);
        assert_eq!(all, json!({"x": {"type": "t", "id": "1", "text": "ab"}, "n": 2}));
    }
}
