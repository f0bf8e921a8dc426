//! Compares the fragments of a streamed response with the whole items that follow them.
//!
//! Some proxies forward the events of a stream in the wrong order, or lose some. The events that
//! end an item contain all of it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::snapshots::message_text;

/// The text of each message, as its fragments have arrived, and whether a whole item contradicts
/// its fragments.
#[derive(Debug, Default)]
pub(super) struct FragmentComparison {
    /// By the message's position in the output.
    texts: HashMap<u64, String>,
    has_conflict: bool,
    has_damage: bool,
}

impl FragmentComparison {
    /// Starts the item at a position.
    pub(super) fn begin_item(&mut self, position: u64) {
        self.texts.remove(&position);
    }

    /// Adds a fragment of a message's text.
    pub(super) fn push(&mut self, position: u64, fragment: &str) {
        self.texts.entry(position).or_default().push_str(fragment);
    }

    /// Compares a whole item with its fragments. `arguments` are the fragments of a call's
    /// arguments.
    pub(super) fn compare(&mut self, position: u64, item: &Value, arguments: Option<&str>) {
        let (fragments, whole, is_conflict) = if item["type"] == "function_call" {
            let Some(fragments) = arguments else { return };
            let whole = item["arguments"].as_str().unwrap_or_default().to_owned();
            let is_conflict = contradicts_arguments(fragments, &whole);
            (fragments, whole, is_conflict)
        } else {
            let Some(fragments) = self.texts.get(&position).map(String::as_str) else { return };
            let whole = message_text(item);
            let is_conflict = contradicts_text(fragments, &whole);
            (fragments, whole, is_conflict)
        };
        let is_damage = is_conflict && whole.len() >= fragments.len();
        self.has_conflict |= is_conflict;
        self.has_damage |= is_damage;
    }

    /// Whether a whole item contradicts its fragments.
    pub(super) fn has_conflict(&self) -> bool {
        self.has_conflict
    }

    /// Whether fragments were lost or arrived in the wrong order. A whole item that is shorter than
    /// its fragments only lacks something that the server removed at the end.
    pub(super) fn has_damage(&self) -> bool {
        self.has_damage
    }
}

/// Whether the text of a message is neither what its fragments say nor a part of it. Some servers
/// trim the text, and others repeat only its last piece.
fn contradicts_text(fragments: &str, whole: &str) -> bool {
    !whole.trim().is_empty() && !fragments.contains(whole)
}

/// Whether the arguments of a call are an object that its fragments don't contain. Whitespace and
/// the order of members don't matter.
fn contradicts_arguments(fragments: &str, whole: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let whole = parse(whole).filter(|object| !object.is_empty());
    whole.is_some() && parse(fragments) != whole
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{
        CorrectedContent, StreamReader,
        neutral::{CollectedResponse, Delta},
        responses::ResponsesReader,
        sse,
    };

    /// Reads a stream with one item. `pieces` are its fragments and `whole` its content at the end.
    fn read(is_call: bool, pieces: &[&str], whole: &str) -> Option<CorrectedContent> {
        let item = |content: &str| match is_call {
            true => json!({"type": "function_call", "id": "a", "call_id": "c", "name": "shell",
                "arguments": content}),
            false => json!({"type": "message", "id": "a", "role": "assistant",
                "content": [{"type": "output_text", "text": content}]}),
        };
        let kind = if is_call { "function_call_arguments" } else { "output_text" };
        let mut events = vec![json!({"type": "response.output_item.added", "item": item("")})];
        for piece in pieces {
            let name = format!("response.{kind}.delta");
            events.push(json!({"type": name, "item_id": "a", "delta": piece}));
        }
        events.push(json!({"type": "response.output_item.done", "item": item(whole)}));
        events.push(json!({"type": "response.completed", "response": {"status": "completed"}}));
        let mut reader = ResponsesReader::default();
        for event in events {
            let event = sse::parse_event(format!("data: {event}\n\n").into());
            reader.read(&event).expect("a valid event");
        }
        reader.corrected_content()
    }

    #[test]
    fn whole_items_replace_fragments_that_they_contradict() {
        let arguments = "{\"command\": \"ls -la\"}";
        for (is_call, pieces, whole, is_damaged) in [
            (false, vec!["I ", "at ", "look ", "it."], "I look at it.", true),
            (false, vec!["I look "], "I look at it.", true),
            (false, vec!["I <b>look</b> at it."], "I look at it.", false),
            (true, vec!["{\"command\"", "\"ls -la\"", ": ", "}"], arguments, true),
            (true, vec!["{\"command\": \"l", "-la\"}", "s "], arguments, true),
        ] {
            let read = read(is_call, &pieces, whole).expect("a conflict");
            assert_eq!(read.is_damaged, is_damaged, "{pieces:?}");
            let response = CollectedResponse::from_deltas(read.deltas.clone());
            let answer = response.to_model_response();
            match is_call {
                true => assert_eq!(answer.tool_calls[0].arguments, whole),
                false => assert_eq!(read.deltas, [Delta::Text(whole.to_owned())]),
            }
        }
    }

    #[test]
    fn fragments_that_agree_with_the_whole_item_are_kept() {
        for (is_call, pieces, whole) in [
            (false, vec!["I look ", "at it.\n"], "I look at it."),
            (false, vec!["I look ", "at it."], "at it."),
            (false, vec!["I look."], ""),
            (true, vec!["{\"a\":1,", "\"b\":2}"], "{\"b\": 2, \"a\": 1}"),
            (true, vec!["{\"a\": 1}"], "{}"),
            (true, vec!["{\"a\": 1}"], "null"),
        ] {
            assert_eq!(read(is_call, &pieces, whole), None, "{pieces:?}");
        }
    }

    #[test]
    fn fragments_are_kept_if_a_whole_item_is_missing() {
        let delta = |item: &str, text: &str| -> Value {
            json!({"type": "response.output_text.delta", "item_id": item, "delta": text})
        };
        let added = |number: u64, item: &str| -> Value {
            json!({"type": "response.output_item.added", "output_index": number,
                "item": {"type": "message", "id": item}})
        };
        let mut reader = ResponsesReader::default();
        for event in [
            added(0, "a"),
            delta("a", "look. I "),
            added(1, "b"),
            delta("b", "Done."),
            json!({"type": "response.output_item.done", "output_index": 0,
                "item": {"type": "message", "id": "a",
                    "content": [{"type": "output_text", "text": "I look. "}]}}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ] {
            let event = sse::parse_event(format!("data: {event}\n\n").into());
            reader.read(&event).expect("a valid event");
        }
        assert_eq!(reader.corrected_content(), None);
    }
}
