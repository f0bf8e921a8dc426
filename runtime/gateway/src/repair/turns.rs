//! Rewrites the text and roles of turns for strict endpoints.

use std::collections::HashMap;

use proctor_types::Api;
use serde_json::{Map, Value, json};

use super::body::{change_each, is_blank, items, messages};

/// The text that replaces missing text if an endpoint requires every message to have text.
const PLACEHOLDER: &str = "(no text)";

pub(super) fn fill_empty_turns(api: Api, body: &mut Map<String, Value>) -> bool {
    if api == Api::Gemini {
        return change_each(items(body.get_mut("contents")), |content| {
            let empty = content["parts"].as_array().is_none_or(Vec::is_empty);
            if empty {
                content["parts"] = json!([{"text": PLACEHOLDER}]);
            }
            empty
        });
    }
    change_each(items(body.get_mut("messages")), |message| {
        let results =
            items(message.get_mut("content")).filter(|block| block["type"] == "tool_result");
        let changed = change_each(results, |block| {
            let blank = is_blank(&block["content"]);
            if blank {
                block["content"] = PLACEHOLDER.into();
            }
            blank
        });
        if !is_blank(&message["content"]) {
            return changed;
        }
        let silent_call = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        // If a message has calls, nearly every endpoint accepts missing text but not empty text.
        let text: Value = if silent_call && message["content"] == json!("") {
            Value::Null
        } else {
            PLACEHOLDER.into()
        };
        let differs = message["content"] != text;
        message["content"] = text;
        differs || changed
    })
}

/// Joins two contents: strings with a blank line between them, parts in one list.
fn join_contents(target: &mut Value, addition: Value) {
    let parts = |content: Value| match content {
        Value::Array(parts) => parts,
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::Null => Vec::new(),
        text => vec![json!({"type": "text", "text": text})],
    };
    *target = match (target.take(), addition) {
        (Value::String(one), Value::String(other)) if one.is_empty() || other.is_empty() => {
            (one + &other).into()
        }
        (Value::String(one), Value::String(other)) => format!("{one}\n\n{other}").into(),
        (one, Value::Null) => one,
        (Value::Null, other) => other,
        (one, other) => {
            let mut all = parts(one);
            all.extend(parts(other));
            all.into()
        }
    };
}

pub(super) fn merge_roles(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let count = all.len();
    let mut out: Vec<Value> = Vec::with_capacity(count);
    for mut message in std::mem::take(all) {
        let plain = message["role"] == "user"
            || message["role"] == "system"
            || (message["role"] == "assistant" && message.get("tool_calls").is_none());
        match out.last_mut() {
            Some(last)
                if plain && last["role"] == message["role"] && last.get("tool_calls").is_none() =>
            {
                let content = message["content"].take();
                join_contents(&mut last["content"], content);
            }
            _ => out.push(message),
        }
    }
    *all = out;
    all.len() != count
}

pub(super) fn insert_turn_after_tool(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let mut out: Vec<Value> = Vec::with_capacity(all.len() + 1);
    let mut changed = false;
    for message in std::mem::take(all) {
        if message["role"] == "user" && out.last().is_some_and(|last| last["role"] == "tool") {
            out.push(json!({"role": "assistant", "content": PLACEHOLDER}));
            changed = true;
        }
        out.push(message);
    }
    *all = out;
    changed
}

/// Adds the name of the called function to each tool result without one.
pub(super) fn name_tool_results(body: &mut Map<String, Value>) -> bool {
    // An endpoint may use an id again in a later turn, so the last call with the id counts.
    let mut names: HashMap<String, String> = HashMap::new();
    change_each(items(body.get_mut("messages")), |message| {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let name = call["function"]["name"].as_str();
            if let (Some(id), Some(name)) = (call["id"].as_str(), name) {
                names.insert(id.to_owned(), name.to_owned());
            }
        }
        let has_name = message["name"].as_str().is_some_and(|name| !name.is_empty());
        if message["role"] != "tool" || has_name {
            return false;
        }
        let Some(name) = message["tool_call_id"].as_str().and_then(|id| names.get(id)) else {
            return false;
        };
        message["name"] = name.as_str().into();
        true
    })
}

/// Puts each tool result that is JSON, but not an object, into an object. Gateways to Gemini decode
/// a result that is JSON, but Gemini accepts only objects. If a result is not JSON, these gateways
/// put it into such an object themselves.
pub(super) fn wrap_json_results(body: &mut Map<String, Value>) -> bool {
    change_each(items(body.get_mut("messages")), |message| {
        let text = message["content"].as_str().filter(|_| message["role"] == "tool");
        let Some(text) = text else { return false };
        let is_text_or_object =
            serde_json::from_str::<Value>(text).map_or(true, |value| value.is_object());
        if is_text_or_object {
            return false;
        }
        let object = json!({ "result": text }).to_string();
        message["content"] = object.into();
        true
    })
}

/// Puts each call into its own turn, followed by its result.
pub(super) fn split_calls(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let mut out: Vec<Value> = Vec::with_capacity(all.len());
    let mut changed = false;
    let mut rest = std::mem::take(all).into_iter().peekable();
    while let Some(mut message) = rest.next() {
        let calls = match message["tool_calls"].as_array() {
            Some(calls) if calls.len() > 1 => calls.clone(),
            _ => {
                out.push(message);
                continue;
            }
        };
        changed = true;
        let mut results = Vec::new();
        while let Some(result) = rest.next_if(|next| next["role"] == "tool") {
            results.push(result);
        }
        for call in calls {
            let mut turn = message.clone();
            let id = call["id"].clone();
            turn["tool_calls"] = json!([call]);
            out.push(turn);
            out.extend(results.extract_if(.., |result| result["tool_call_id"] == id));
            // Only the first call keeps the model's text.
            message = json!({"role": "assistant", "content": ""});
        }
        out.append(&mut results);
    }
    *all = out;
    changed
}

/// Merges all system messages into one and moves it to the start of the conversation. Returns
/// whether the body changed.
pub(super) fn move_system_first(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let is_system = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    if all.iter().skip(1).all(|message| !is_system(message)) {
        return false;
    }
    let (systems, mut rest): (Vec<_>, Vec<_>) =
        std::mem::take(all).into_iter().partition(is_system);
    let mut content = Value::Null;
    for mut system in systems {
        join_contents(&mut content, system["content"].take());
    }
    rest.insert(0, json!({"role": "system", "content": content}));
    *all = rest;
    true
}

pub(super) fn merge_system_into_user(body: &mut Map<String, Value>) -> bool {
    let Some(all) = messages(body) else { return false };
    let is_system = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    if !all.iter().any(is_system) {
        return false;
    }
    let mut system = Value::Null;
    let mut rest = Vec::with_capacity(all.len());
    for mut message in std::mem::take(all) {
        if is_system(&message) {
            let content = message["content"].take();
            join_contents(&mut system, content);
        } else {
            rest.push(message);
        }
    }
    match rest.iter_mut().find(|message| message["role"] == "user") {
        Some(first) => {
            let content = first["content"].take();
            join_contents(&mut system, content);
            first["content"] = system;
        }
        None => rest.insert(0, json!({"role": "user", "content": system})),
    }
    *all = rest;
    true
}
