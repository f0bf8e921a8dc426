//! The conversation that an in-process caller has sent.

use bytes::Bytes;
use proctor_types::{Message, ModelRequest};
use serde_json::{Map, Value};

use crate::codec;

/// The previous conversation, serialized for a chat request. Messages that a request repeats are
/// neither serialized nor recorded again.
#[derive(Debug, Default)]
pub(crate) struct SentConversation {
    messages: Vec<Message>,
    json: Vec<u8>,
    /// End offset of each message in `json`.
    message_ends: Vec<usize>,
}

impl SentConversation {
    /// Returns the number of messages.
    pub(crate) fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// Updates the conversation to match this request. Returns how many messages it repeats.
    pub(crate) fn update(&mut self, model_request: &ModelRequest) -> usize {
        let same =
            self.messages.iter().zip(&model_request.messages).take_while(|(old, new)| old == new);
        let kept = same.count();
        self.messages.truncate(kept);
        self.message_ends.truncate(kept);
        self.json.truncate(self.message_ends.last().copied().unwrap_or_default());
        for message in model_request.messages.get(kept..).unwrap_or_default() {
            if !self.json.is_empty() {
                self.json.push(b',');
            }
            self.json.extend_from_slice(codec::message::to_chat(message).to_string().as_bytes());
            self.message_ends.push(self.json.len());
            self.messages.push(message.clone());
        }
        kept
    }

    /// Returns the complete request body. `other_fields` has the fields that follow the messages.
    pub(crate) fn request_body(&self, model: &str, other_fields: &Map<String, Value>) -> Bytes {
        let model = Value::from(model).to_string();
        let rest = Value::Object(other_fields.clone()).to_string();
        let mut body = Vec::with_capacity(self.json.len() + model.len() + rest.len() + 32);
        body.extend_from_slice(b"{\"model\":");
        body.extend_from_slice(model.as_bytes());
        body.extend_from_slice(b",\"messages\":[");
        body.extend_from_slice(&self.json);
        body.push(b']');
        let fields = rest.strip_prefix('{').unwrap_or_default();
        if fields != "}" {
            body.push(b',');
        }
        body.extend_from_slice(fields.as_bytes());
        body.into()
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{Message, ModelRequest};
    use serde_json::{Map, Value, json};

    use super::SentConversation;

    fn model_request(texts: &[&str]) -> ModelRequest {
        let user = |text: &&str| Message::User { content: (*text).to_owned() };
        ModelRequest { messages: texts.iter().map(user).collect(), tools: Vec::new() }
    }

    #[test]
    fn sent_conversation_reuses_repeated_messages() {
        let mut written = SentConversation::default();
        let said = |written: &SentConversation, rest: Value| {
            let rest: Map<String, Value> = rest.as_object().cloned().expect("an object");
            serde_json::from_slice::<Value>(&written.request_body("m", &rest)).expect("JSON")
        };
        let user = |text: &str| json!({"role": "user", "content": text});
        assert_eq!(said(&written, json!({})), json!({"model": "m", "messages": []}));
        for (texts, kept) in [
            (&["a", "b"][..], 0),
            (&["a", "b", "c"], 2),
            // A notice appended to the last message does not appear in later requests.
            (&["a", "b", "c and so on"], 2),
            (&["a", "b", "c", "d"], 2),
            (&["a"], 1),
            (&["z", "b"], 0),
        ] {
            assert_eq!(written.update(&model_request(texts)), kept, "{texts:?}");
            let messages: Vec<_> = texts.iter().map(|text| user(text)).collect();
            let wanted = json!({"model": "m", "messages": messages, "x": 1});
            assert_eq!(said(&written, json!({"x": 1})), wanted);
        }
    }
}
