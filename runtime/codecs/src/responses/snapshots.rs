//! Messages that repeat the previous message from its start.
//!
//! Some servers split a long message into several items, each with the whole text so far. Only the
//! last of these items is the message.

use serde_json::Value;

use crate::neutral::Delta;

/// Removes the text that a message repeats from the previous message.
#[derive(Debug, Default)]
pub(super) struct MessageDeduplicator {
    /// The text of the previous message.
    previous: String,
    /// The text of the current message so far.
    current: String,
    /// Whether the current message has only repeated the previous one so far. Its text is held back
    /// until it differs from the previous message.
    is_held: bool,
}

impl MessageDeduplicator {
    /// Starts the next message, unless the current one has no text yet.
    pub(super) fn begin_message(&mut self, deltas: &mut Vec<Delta>) {
        self.end_message(deltas);
        if !self.current.is_empty() {
            self.previous = std::mem::take(&mut self.current);
        }
        self.is_held = !self.previous.is_empty();
    }

    /// Adds a fragment of the current message.
    pub(super) fn push(&mut self, fragment: String, deltas: &mut Vec<Delta>) {
        if !self.is_held {
            self.current.push_str(&fragment);
            deltas.push(Delta::Text(fragment));
            return;
        }
        let rest = self.previous.get(self.current.len()..).unwrap_or_default();
        self.is_held = rest.starts_with(&fragment);
        self.current.push_str(&fragment);
        if !self.is_held {
            let new = self.current.strip_prefix(&self.previous).unwrap_or(&self.current);
            deltas.push(Delta::Text(new.to_owned()));
        }
    }

    /// Ends the current message. If the message is only a part of the previous one, it is a
    /// separate message.
    pub(super) fn end_message(&mut self, deltas: &mut Vec<Delta>) {
        let is_held = std::mem::take(&mut self.is_held);
        if is_held && !self.current.is_empty() && self.current != self.previous {
            deltas.push(Delta::Text(self.current.clone()));
        }
    }
}

/// Removes the messages that the next message repeats from the start.
pub(super) fn drop_snapshots(items: Vec<Value>) -> Vec<Value> {
    let mut next = String::new();
    let mut kept = Vec::with_capacity(items.len());
    for item in items.into_iter().rev() {
        let text = message_text(&item);
        let is_snapshot = !text.is_empty() && next.starts_with(&text);
        if !text.is_empty() {
            next = text;
        }
        if !is_snapshot {
            kept.push(item);
        }
    }
    kept.reverse();
    kept
}

/// Returns the text of a message. The text of any other item is empty.
pub(super) fn message_text(item: &Value) -> String {
    let parts = item["content"].as_array().filter(|_| item["type"] == "message");
    parts.into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        StreamReader,
        neutral::{CollectedResponse, Item},
        responses::{ResponsesReader, native_turn, read_response},
        sse,
    };

    fn message(id: &str, text: &str) -> Value {
        json!({"type": "message", "id": id, "role": "assistant",
            "content": [{"type": "output_text", "text": text}]})
    }

    fn text(response: &CollectedResponse) -> String {
        let texts = response.items.iter().filter_map(|item| match item {
            Item::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Reads a stream of messages, with a reasoning item before each. Returns the text, and the
    /// text of each message to send back.
    fn stream(messages: &[(&str, &str)]) -> (String, Vec<String>) {
        let (mut events, mut output) = (Vec::new(), Vec::new());
        for (id, text) in messages {
            let thought = json!({"type": "reasoning", "id": format!("rs_{}", output.len()),
                "summary": [], "encrypted_content": "E"});
            for item in [thought, message(id, text)] {
                let index = output.len();
                events.push(json!({"type": "response.output_item.added", "output_index": index,
                    "item": {"type": item["type"], "id": item["id"]}}));
                if item["type"] == "message" {
                    for piece in text.as_bytes().chunks(3) {
                        let piece = String::from_utf8_lossy(piece);
                        events.push(json!({"type": "response.output_text.delta",
                            "output_index": index, "item_id": id, "delta": piece}));
                    }
                }
                events.push(json!({"type": "response.output_item.done", "output_index": index,
                    "item": item}));
                output.push(item);
            }
        }
        events.push(json!({"type": "response.completed",
            "response": {"status": "completed", "output": output}}));
        let (mut reader, mut deltas) = (ResponsesReader::default(), Vec::new());
        for event in events {
            let event = sse::parse_event(format!("data: {event}\n\n").into());
            deltas.extend(reader.read(&event).expect("a valid event"));
        }
        let texts = reader
            .take_turn()
            .into_iter()
            .filter_map(|item| item["content"][0]["text"].as_str().map(ToOwned::to_owned));
        (text(&CollectedResponse::from_deltas(deltas)), texts.collect())
    }

    #[test]
    fn snapshot_stream_yields_the_last_message() {
        for (messages, text, sent) in [
            (
                vec![("a", "I list"), ("b", "I list the"), ("c", "I list the files.")],
                "I list the files.",
                vec!["I list the files."],
            ),
            (
                vec![("a", "I list"), ("a", "I list the files.")],
                "I list the files.",
                vec!["I list the files."],
            ),
            (vec![("a", "Done."), ("b", "Done.")], "Done.", vec!["Done."]),
            // The model itself wrote two messages.
            (
                vec![("a", "I list."), ("b", "I look.")],
                "I list.I look.",
                vec!["I list.", "I look."],
            ),
            (vec![("a", "I list."), ("b", "I l")], "I list.I l", vec!["I list.", "I l"]),
            (vec![("a", "I list.")], "I list.", vec!["I list."]),
        ] {
            let sent: Vec<String> = sent.into_iter().map(ToOwned::to_owned).collect();
            assert_eq!(stream(&messages), (text.to_owned(), sent), "{messages:?}");
        }
    }

    #[test]
    fn complete_snapshot_response_yields_the_last_message() {
        let body = json!({"status": "completed",
            "output": [message("a", "I list"), message("b", "I list the files.")]});
        let read = CollectedResponse::from_deltas(read_response(&body).expect("a response"));
        assert_eq!(text(&read), "I list the files.");
        assert_eq!(native_turn(&body), [message("b", "I list the files.")]);
    }
}
