//! The assistant message as the chat endpoint sent it.

use serde_json::{Map, Value, json};

use crate::native;

/// A message that is assembled from the fragments of a stream.
#[derive(Debug, Default)]
pub(super) struct MessageBuilder {
    fields: Map<String, Value>,
    calls: Vec<Map<String, Value>>,
}

impl MessageBuilder {
    /// Adds the fields of a fragment, except for its calls.
    pub(super) fn add_fields(&mut self, delta: &Map<String, Value>) {
        for (name, value) in delta {
            match name.as_str() {
                "tool_calls" => {}
                "content" => self.add_content(value),
                _ => native::merge_member(&mut self.fields, name, value),
            }
        }
    }

    pub(super) fn add_text(&mut self, text: &str) {
        self.add_content(&Value::String(text.to_owned()));
    }

    /// Adds content: text, or a list of parts followed by text. Ignores empty strings, because some
    /// endpoints send them between two fragments of the same part.
    fn add_content(&mut self, value: &Value) {
        if value.is_null() {
            return;
        }
        let as_parts = |value: &Value| match value {
            Value::String(text) if text.is_empty() => json!([]),
            Value::String(text) => json!([{"type": "text", "text": text}]),
            Value::Array(parts) => {
                let empty = json!({"type": "text", "text": ""});
                parts.iter().filter(|part| **part != empty).cloned().collect()
            }
            other => other.clone(),
        };
        let before = self.fields.entry("content").or_insert_with(|| match value {
            Value::Array(_) => json!([]),
            _ => "".into(),
        });
        match (&mut *before, value) {
            (Value::String(text), Value::String(more)) => text.push_str(more),
            (before, value) => {
                *before = as_parts(before);
                native::merge_member(&mut self.fields, "content", &as_parts(value));
            }
        }
    }

    /// Adds a fragment of the call at `index`. `arguments` contains the fragment's arguments as
    /// text.
    pub(super) fn add_call(&mut self, index: usize, piece: &Value, arguments: &str) {
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, Map::new);
        }
        let call = &mut self.calls[index];
        let mut piece = piece.as_object().cloned().unwrap_or_default();
        piece.remove("index");
        if let Some(function) = piece.get_mut("function").and_then(Value::as_object_mut) {
            function.insert("arguments".into(), arguments.into());
        }
        native::merge(call, &piece);
    }

    /// Returns the message. `ids` are the call ids that the results will refer to.
    pub(super) fn finish(mut self, ids: &[String]) -> Vec<Value> {
        for (call, id) in self.calls.iter_mut().zip(ids) {
            native::remove_nulls(call);
            call.insert("id".into(), id.as_str().into());
            call.entry("type").or_insert_with(|| "function".into());
        }
        native::remove_nulls(&mut self.fields);
        self.fields.insert("role".into(), "assistant".into());
        let content = self.fields.get("content").filter(|content| **content != json!(""));
        let content = match (content, self.calls.is_empty()) {
            (Some(content), _) => content.clone(),
            (None, true) => "".into(),
            // Endpoints reject a message that has calls and empty text.
            (None, false) => Value::Null,
        };
        self.fields.insert("content".into(), content);
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(Value::Object);
            self.fields.insert("tool_calls".into(), calls.collect());
        }
        vec![Value::Object(self.fields)]
    }
}
