//! Rewrites ids of calls and items for strict endpoints.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::body::{IdKind, change_each, drop_field, items, visit_ids};

/// Mistral requires exactly this many letters and digits. All other endpoints also accept such ids.
const ID_LENGTH: usize = 9;

/// The longest item id that the Responses API accepts.
const MAX_ITEM_ID_LENGTH: usize = 64;

/// Removes ids that another server assigned or that are too long.
pub(super) fn drop_foreign_item_ids(body: &mut Map<String, Value>) -> bool {
    change_each(items(body.get_mut("input")), |item| {
        let prefix = match item["type"].as_str() {
            Some("function_call") => "fc",
            Some("reasoning") => "rs",
            Some("message") | None => "msg",
            Some(_) => return false,
        };
        let foreign = item["id"]
            .as_str()
            .is_some_and(|id| !id.starts_with(prefix) || id.len() > MAX_ITEM_ID_LENGTH);
        foreign && drop_field(item, "id")
    })
}

/// Removes the ids of all items, because these ids refer to items that the endpoint did not keep, or
/// are not unique. Reasoning without encrypted content then becomes empty and is removed.
pub(super) fn drop_item_ids(body: &mut Map<String, Value>) -> bool {
    let Some(input) = body.get_mut("input").and_then(Value::as_array_mut) else { return false };
    let dropped = change_each(input.iter_mut(), |item| drop_field(item, "id"));
    input.retain(|item| item["type"] != "reasoning" || item["encrypted_content"].is_string());
    dropped
}

/// Renames the second and later calls with the same id, and their results in the same order.
pub(super) fn make_ids_unique(body: &mut Map<String, Value>) -> bool {
    let mut calls: HashMap<String, usize> = HashMap::new();
    let mut results: HashMap<String, usize> = HashMap::new();
    let mut changed = false;
    let mut rename = |id: &mut Value, seen: &mut HashMap<String, usize>| {
        let Value::String(text) = id else { return };
        let count = seen.entry(text.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *text = format!("{text}_{count}");
            changed = true;
        }
    };
    visit_ids(body, |of, id| match of {
        IdKind::Call => rename(id, &mut calls),
        IdKind::Result => rename(id, &mut results),
        IdKind::Other => {}
    });
    changed
}

/// Gives each call a new id that depends only on the old one, so that repeated turns keep the same
/// bytes in every request.
pub(super) fn shorten_ids(body: &mut Map<String, Value>) -> bool {
    let mut known: HashMap<String, String> = HashMap::new();
    let mut changed = false;
    visit_ids(body, |_, id| {
        let Value::String(text) = id else { return };
        let fits = text.len() == ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if fits {
            return;
        }
        let short = known.entry(text.clone()).or_insert_with(|| {
            let digest = proctor_types::sha256_hex(text.as_bytes());
            digest.chars().take(ID_LENGTH).collect()
        });
        changed = true;
        text.clone_from(short);
    });
    changed
}
