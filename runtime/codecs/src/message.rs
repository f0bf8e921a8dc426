//! Converts a scaffold's messages to turns for any format, and to messages for chat requests.
//! Converts responses to the form that a scaffold receives.

use proctor_types::{Api, Message, ModelResponse, NativeTurn};
use serde_json::{Map, Value, json};

use crate::{
    Part, Role, chat,
    neutral::{CollectedResponse, Item, StopReason, Turn},
};

/// Converts the message to a turn that every format can write.
pub fn to_turn(message: &Message) -> Turn {
    let text = |content: &String| vec![Part::Text(content.clone())];
    match message {
        Message::System { content } => Turn::new(Role::System, text(content)),
        Message::User { content } => Turn::new(Role::User, text(content)),
        Message::Tool { call_id, content } => {
            let (id, content) = (call_id.clone(), content.clone());
            Turn::new(Role::User, vec![Part::Result { id, content, is_error: false }])
        }
        Message::Assistant { content, tool_calls, extra, native } => {
            let mut parts = chat::read_reasoning(&Value::Object(extra.clone()));
            if !content.is_empty() {
                parts.extend(text(content));
            }
            parts.extend(tool_calls.iter().cloned().map(Part::Call));
            Turn { native_turn: native.clone(), ..Turn::new(Role::Assistant, parts) }
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

impl CollectedResponse {
    /// Returns the response in the form that is recorded and passed to a scaffold. The usage is
    /// zero if the endpoint reported none. Reasoning and refusals, which the type has no fields
    /// for, are stored in `extra` under the names that chat endpoints use.
    pub fn to_model_response(&self) -> ModelResponse {
        let (mut content, mut reasoning, mut refusal) =
            (String::new(), String::new(), String::new());
        let mut details = Vec::new();
        for item in &self.items {
            match item {
                Item::Text(text) => content.push_str(text),
                Item::Reasoning(thought) => {
                    reasoning.push_str(&thought.text);
                    let signature = thought.signature.as_deref();
                    let text = Some(thought.text.as_str());
                    details.extend(signature.map(|one| chat::reasoning_detail(text, one)));
                }
                Item::Refusal(text) => refusal.push_str(text),
                Item::Call(_) => {}
            }
        }
        let mut extra = self.extra_fields.clone();
        let named = ["reasoning_content", "reasoning"].iter().any(|name| extra.contains_key(*name));
        if !reasoning.is_empty() && !named {
            extra.insert("reasoning_content".into(), reasoning.into());
        }
        if !details.is_empty() && !extra.contains_key("reasoning_details") {
            extra.insert("reasoning_details".into(), details.into());
        }
        let mut refused = !refusal.is_empty();
        if refused {
            extra.insert("refusal".into(), refusal.into());
        }
        let ending = self.stop_reason();
        refused |= matches!(ending, StopReason::Filter | StopReason::Refusal);
        let mut answer = ModelResponse {
            content,
            tool_calls: self.calls().cloned().collect(),
            extra,
            native: None,
            finish_reason: self.reported_stop.as_ref().map(|_| chat::finish_reason(&ending)),
            refused,
            usage: self.usage.unwrap_or_default(),
            cost_usd: None,
        };
        // Record the native turn only if the fields above don't contain everything.
        let rebuilt = || to_chat(&answer.to_message());
        let native = self.native_turn.as_ref().filter(|native| !native.items.is_empty());
        answer.native = native
            .filter(|native| native.api != Api::Chat || native.items.first() != Some(&rebuilt()))
            .cloned();
        answer
    }
}
