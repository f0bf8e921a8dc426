//! What a request adds to the conversation, and who wrote it, in any wire format.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use proctor_types::Answer;
use serde_json::{Value, value::RawValue};

/// Who wrote a text of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// A prompt, a reminder, a tool description, or words put into a user's mouth.
    Scaffold {
        says_user: bool,
    },
    Tool,
    Model,
}

const MODELS: &[&str] = &["assistant", "model"];
const TOOLS: &[&str] = &["tool", "function"];
/// Parts that the model wrote, and those that a tool wrote: values of `type`, or keys.
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

/// The parts of requests that have been read. A conversation is repeated with every request, so
/// known parts are skipped without parsing.
#[derive(Default)]
pub(super) struct Requests(HashSet<u64>);

impl Requests {
    /// Calls `text` with each text of the body that is in a part no earlier body had.
    pub(super) fn added(&mut self, body: &[u8], text: &mut impl FnMut(Writer, &str)) {
        let Ok(parts) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else {
            return text(Writer::Scaffold { says_user: false }, &String::from_utf8_lossy(body));
        };
        for part in parts.values() {
            match serde_json::from_str::<Vec<&RawValue>>(part.get()) {
                Ok(each) => each.iter().for_each(|one| self.part(one.get(), text)),
                Err(_) => self.part(part.get(), text),
            }
        }
    }

    fn part(&mut self, json: &str, text: &mut impl FnMut(Writer, &str)) {
        let mut hasher = DefaultHasher::new();
        json.hash(&mut hasher);
        if self.0.insert(hasher.finish()) {
            let part = serde_json::from_str(json).unwrap_or_default();
            written(&part, Writer::Scaffold { says_user: false }, text);
        }
    }
}

/// The texts of a part of a request, each with its writer.
pub(super) fn written(value: &Value, writer: Writer, text: &mut impl FnMut(Writer, &str)) {
    match value {
        Value::String(one) => text(writer, one),
        Value::Array(all) => all.iter().for_each(|one| written(one, writer, text)),
        Value::Object(keys) => {
            let is = |key: &str, names: &[&str]| {
                keys.get(key).and_then(Value::as_str).is_some_and(|name| names.contains(&name))
            };
            let writer = if is("role", MODELS) || is("type", MODEL_PARTS) {
                Writer::Model
            } else if is("role", TOOLS) || is("type", TOOL_PARTS) {
                Writer::Tool
            } else if is("role", &["user"]) {
                Writer::Scaffold { says_user: true }
            } else {
                writer
            };
            for (key, one) in keys {
                let writer = match key.as_str() {
                    key if MODEL_PARTS.contains(&key) => Writer::Model,
                    key if TOOL_PARTS.contains(&key) => Writer::Tool,
                    _ => writer,
                };
                written(one, writer, text);
            }
        }
        _ => {}
    }
}

/// The texts of a response, including the strings in its calls' arguments.
pub(super) fn said(answer: &Answer, text: &mut impl FnMut(&str)) {
    text(&answer.content);
    strings(&serde_json::to_value(&answer.extra).unwrap_or_default(), text);
    for call in &answer.tool_calls {
        strings(&serde_json::to_value(call).unwrap_or_default(), text);
    }
}

/// Every text of a value; a text that is JSON itself, such as the arguments of a call, is parsed
/// too.
pub(super) fn strings(value: &Value, text: &mut impl FnMut(&str)) {
    match value {
        Value::String(one) => {
            text(one);
            if one.trim_start().starts_with(['{', '['])
                && let Ok(inner @ (Value::Object(_) | Value::Array(_))) =
                    serde_json::from_str::<Value>(one)
            {
                inside(&inner, text);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| strings(one, text)),
        Value::Object(keys) => keys.values().for_each(|one| strings(one, text)),
        _ => {}
    }
}

/// One level is enough: a text within such a text is used as it is.
fn inside(value: &Value, text: &mut impl FnMut(&str)) {
    match value {
        Value::String(one) => text(one),
        Value::Array(all) => all.iter().for_each(|one| inside(one, text)),
        Value::Object(keys) => keys.values().for_each(|one| inside(one, text)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_read_only_new_messages() {
        let mut requests = Requests::default();
        let mut read = |body: Value| {
            let mut all = Vec::new();
            let mut keep = |_: Writer, text: &str| all.push(text.to_owned());
            requests.added(body.to_string().as_bytes(), &mut keep);
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
