//! Extracts, from requests in any wire format, the strings that each request adds to the
//! conversation, and the author of each string.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use proctor_types::ModelResponse;
use serde_json::{Value, value::RawValue};

/// The author of a string in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    /// The scaffold: a prompt, a reminder, a tool description, or a message that it sends as the
    /// user.
    Scaffold {
        says_user: bool,
    },
    Tool,
    Model,
}

const MODEL_ROLES: &[&str] = &["assistant", "model"];
const TOOL_ROLES: &[&str] = &["tool", "function"];
/// Kinds of message parts that the model writes (`MODEL_PARTS`), and kinds that contain tool output
/// (`TOOL_PARTS`). The kind of a part is its `type` or its key.
const MODEL_PARTS: &[&str] = &[
    "tool_calls",
    "functionCall",
    "function_call",
    "tool_use",
    "custom_tool_call",
    "thinking",
    "reasoning",
];
const TOOL_PARTS: &[&str] =
    &["functionResponse", "function_call_output", "tool_result", "custom_tool_call_output"];

/// The parts of requests that were already read. Every request repeats the conversation, so known
/// parts are skipped without parsing them.
#[derive(Default)]
pub(super) struct SeenRequestParts(HashSet<u64>);

impl SeenRequestParts {
    /// Calls `visit` with each string in parts that no earlier request body contained.
    pub(super) fn for_each_new_text(&mut self, body: &[u8], visit: &mut impl FnMut(Author, &str)) {
        let Ok(parts) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else {
            return visit(Author::Scaffold { says_user: false }, &String::from_utf8_lossy(body));
        };
        for part in parts.values() {
            match serde_json::from_str::<Vec<&RawValue>>(part.get()) {
                Ok(each) => each.iter().for_each(|one| self.read_part(one.get(), visit)),
                Err(_) => self.read_part(part.get(), visit),
            }
        }
    }

    fn read_part(&mut self, json: &str, visit: &mut impl FnMut(Author, &str)) {
        let mut hasher = DefaultHasher::new();
        json.hash(&mut hasher);
        if self.0.insert(hasher.finish()) {
            let part = serde_json::from_str(json).unwrap_or_default();
            for_each_authored_text(&part, Author::Scaffold { says_user: false }, visit);
        }
    }
}

/// Calls `visit` with each string in a part, and the string's author.
pub(super) fn for_each_authored_text(
    value: &Value,
    author: Author,
    visit: &mut impl FnMut(Author, &str),
) {
    match value {
        Value::String(one) => visit(author, one),
        Value::Array(all) => all.iter().for_each(|one| for_each_authored_text(one, author, visit)),
        Value::Object(keys) => {
            let is = |key: &str, names: &[&str]| {
                keys.get(key).and_then(Value::as_str).is_some_and(|name| names.contains(&name))
            };
            let writer = if is("role", MODEL_ROLES) || is("type", MODEL_PARTS) {
                Author::Model
            } else if is("role", TOOL_ROLES) || is("type", TOOL_PARTS) {
                Author::Tool
            } else if is("role", &["user"]) {
                Author::Scaffold { says_user: true }
            } else {
                author
            };
            for (key, one) in keys {
                let writer = match key.as_str() {
                    key if MODEL_PARTS.contains(&key) => Author::Model,
                    key if TOOL_PARTS.contains(&key) => Author::Tool,
                    _ => writer,
                };
                for_each_authored_text(one, writer, visit);
            }
        }
        _ => {}
    }
}

/// Calls `visit` with each string in a response, including the strings in its calls' arguments.
pub(super) fn for_each_response_text(response: &ModelResponse, visit: &mut impl FnMut(&str)) {
    visit(&response.content);
    for_each_string(&serde_json::to_value(&response.extra).unwrap_or_default(), visit);
    for call in &response.tool_calls {
        for_each_string(&serde_json::to_value(call).unwrap_or_default(), visit);
    }
}

/// Calls `visit` with every string in a value. If a string contains JSON, such as a call's
/// arguments, that JSON is parsed, too.
pub(super) fn for_each_string(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(one) => {
            visit(one);
            if one.trim_start().starts_with(['{', '['])
                && let Ok(inner @ (Value::Object(_) | Value::Array(_))) =
                    serde_json::from_str::<Value>(one)
            {
                for_each_nested_string(&inner, visit);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| for_each_string(one, visit)),
        Value::Object(keys) => keys.values().for_each(|one| for_each_string(one, visit)),
        _ => {}
    }
}

/// Parses JSON inside a string, but only one level deep. Strings inside this JSON are used as they
/// are.
fn for_each_nested_string(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(one) => visit(one),
        Value::Array(all) => all.iter().for_each(|one| for_each_nested_string(one, visit)),
        Value::Object(keys) => keys.values().for_each(|one| for_each_nested_string(one, visit)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_read_only_new_messages() {
        let mut requests = SeenRequestParts::default();
        let mut read = |body: Value| {
            let mut all = Vec::new();
            let mut keep = |_: Author, text: &str| all.push(text.to_owned());
            requests.for_each_new_text(body.to_string().as_bytes(), &mut keep);
            all
        };
        let (one, two) =
            (json!({"role": "user", "content": "a"}), json!({"role": "tool", "content": "b"}));
        assert_eq!(read(json!({"model": "m", "messages": [one]})), ["user", "a", "m"]);
        assert_eq!(read(json!({"model": "m", "messages": [one, two]})), ["tool", "b"]);
        assert_eq!(read(json!({"messages": [two, one], "model": "m"})), [""; 0]);
        assert_eq!(read(json!("no request")), ["\"no request\""]);
    }
}
