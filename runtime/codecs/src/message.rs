//! Converts a scaffold's messages to turns for any format, and to messages for chat requests.

use proctor_types::{Api, Message, NativeTurn};
use serde_json::{Map, Value, json};

use crate::{Part, Role, chat, neutral::Turn};

/// Converts the message to a turn that every format can write.
pub fn to_turn(message: &Message) -> Turn {
    let text = |content: &String| vec![Part::Text(content.clone())];
    match message {
        Message::System { content } => Turn::new(Role::System, text(content)),
        Message::User { content } => Turn::new(Role::User, text(content)),
        Message::Tool { call_id, content } => {
            let (id, content) = (call_id.clone(), content.clone());
            Turn::new(Role::User, vec![Part::Result { id, content, failed: false }])
        }
        Message::Assistant { content, tool_calls, extra, native } => {
            let mut parts = chat::read_reasoning(&Value::Object(extra.clone()));
            if !content.is_empty() {
                parts.extend(text(content));
            }
            parts.extend(tool_calls.iter().cloned().map(Part::Call));
            Turn { native: native.clone(), ..Turn::new(Role::Assistant, parts) }
        }
    }
}

/// Converts the message for a chat request.
pub fn to_chat(message: &Message) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => json!({"role": "user", "content": content}),
        Message::Tool { call_id, content } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": content})
        }
        Message::Assistant { native: Some(NativeTurn { api: Api::Chat, items }), .. }
            if !items.is_empty() =>
        {
            items[0].clone()
        }
        Message::Assistant { content, tool_calls, extra, .. } => {
            let mut out = Map::new();
            out.insert("role".into(), "assistant".into());
            let silent = content.is_empty() && !tool_calls.is_empty();
            let content = if silent { Value::Null } else { content.as_str().into() };
            out.insert("content".into(), content);
            if !tool_calls.is_empty() {
                out.insert("tool_calls".into(), tool_calls.iter().map(chat::write_call).collect());
            }
            for (field, value) in extra {
                out.entry(field.as_str()).or_insert_with(|| value.clone());
            }
            Value::Object(out)
        }
    }
}
