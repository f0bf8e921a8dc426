use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde_json::Value;

use super::{
    fragments::FragmentComparison,
    response,
    snapshots::{MessageDeduplicator, drop_snapshots},
};
use crate::{CorrectedContent, ReadError, StreamReader, lenient_json, neutral::Delta, sse};

#[derive(Debug, Default, Clone, Copy)]
struct ItemState {
    /// If the item is a call, its position among all calls.
    call_index: Option<usize>,
    /// Whether fragments have arrived. If so, the complete item at the end contains nothing new.
    has_fragments: bool,
}

#[derive(Debug, Default)]
pub struct ResponsesReader {
    has_ended: bool,
    call_count: usize,
    items: HashMap<u64, ItemState>,
    /// The position of each item in the output, by item id.
    positions: HashMap<String, u64>,
    /// Items in the endpoint's format, by position in the output.
    turn_items: BTreeMap<u64, Value>,
    /// Arguments that arrived before their call ended, by the call's position in the output.
    arguments: HashMap<u64, String>,
    messages: MessageDeduplicator,
    fragments: FragmentComparison,
}

impl StreamReader for ResponsesReader {
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, ReadError> {
        if event.data.is_empty() || event.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let data: Value = lenient_json::parse(event.data.as_bytes())
            .map_err(|error| ReadError::Corrupted(format!("an event is not JSON: {error}")))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let place = self.item_position(&data);
        let mut deltas = Vec::new();
        match data["type"].as_str().unwrap_or(&event.name) {
            "response.created" => {
                deltas.push(Delta::Started { model: text(&data["response"]["model"]) });
            }
            "response.output_item.added" => {
                let item = &data["item"];
                let mut state = ItemState::default();
                if item["type"] == "function_call" {
                    state.call_index = Some(self.call_count);
                    let (id, name) = (text(&item["call_id"]), text(&item["name"]));
                    deltas.push(Delta::Call { index: self.call_count, id, name });
                    self.call_count += 1;
                }
                if item["type"] == "message" {
                    self.messages.begin_message(&mut deltas);
                    self.fragments.begin_item(place);
                }
                self.items.insert(place, state);
            }
            // Some servers add the text of an item again, without adding the item again.
            "response.content_part.added"
                if data["content_index"].as_u64().unwrap_or_default() == 0 =>
            {
                self.messages.begin_message(&mut deltas);
            }
            "response.output_text.delta" => {
                self.mark_received(place);
                let piece = text(&data["delta"]);
                self.fragments.push(place, &piece);
                self.messages.push(piece, &mut deltas);
            }
            "response.refusal.delta" => {
                self.mark_received(place);
                deltas.push(Delta::Refusal(text(&data["delta"])));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.mark_received(place);
                deltas.push(Delta::Reasoning(text(&data["delta"])));
            }
            "response.reasoning_summary_part.added"
                if data["summary_index"].as_u64().is_some_and(|index| index > 0) =>
            {
                deltas.push(Delta::Reasoning("\n\n".into()));
            }
            "response.function_call_arguments.delta" => {
                if let Some(index) = self.mark_received(place).call_index {
                    let piece = text(&data["delta"]);
                    self.arguments.entry(place).or_default().push_str(&piece);
                    deltas.push(Delta::Arguments { index, text: piece });
                }
            }
            // Some servers send the arguments only in this event. They send no fragments before
            // this event, and the completed item has no arguments.
            "response.function_call_arguments.done" => {
                let state = self.items.entry(place).or_default();
                let whole = text(&data["arguments"]);
                if let ItemState { call_index: Some(index), has_fragments: false } = *state
                    && !whole.is_empty()
                {
                    state.has_fragments = true;
                    self.arguments.insert(place, whole.clone());
                    deltas.push(Delta::Arguments { index, text: whole });
                }
            }
            "response.output_item.done" => {
                let item = self.add_missing_arguments(place, &data["item"]);
                self.turn_items.extend(response::to_request_item(&item).map(|item| (place, item)));
                if item["type"] == "message" {
                    self.messages.end_message(&mut deltas);
                }
                self.finish_item(place, &item, &mut deltas);
            }
            // Some routers send `response.done` as the last event.
            "response.completed" | "response.incomplete" | "response.done" => {
                self.has_ended = true;
                self.messages.end_message(&mut deltas);
                let response = &data["response"];
                // Some servers send the items only in this event.
                let output = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
                for (index, item) in (0..).zip(output) {
                    let known = item["id"].as_str().and_then(|id| self.positions.get(id));
                    let place = known.copied().unwrap_or(index);
                    if !self.turn_items.contains_key(&place) && !self.has_call(item, output) {
                        let item = self.add_missing_arguments(place, item);
                        self.turn_items
                            .extend(response::to_request_item(&item).map(|item| (place, item)));
                        self.finish_item(place, &item, &mut deltas);
                    }
                }
                deltas.push(Delta::Stopped(response::read_stop_reason(response)?));
                deltas.extend(response::usage(response).map(Delta::Usage));
            }
            "response.failed" => {
                return Err(format!("the response failed: {}", data["response"]["error"]).into());
            }
            "error" => return Err(format!("error in the stream: {data}").into()),
            _ => {}
        }
        Ok(deltas)
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn corrected_content(&self) -> Option<CorrectedContent> {
        let is_known = |(place, state): (&u64, &ItemState)| {
            self.turn_items.contains_key(place)
                || (!state.has_fragments && state.call_index.is_none())
        };
        // Without all whole items, the fragments are the better source.
        if !self.fragments.has_conflict() || !self.items.iter().all(is_known) {
            return None;
        }
        let (mut deltas, mut calls) = (Vec::new(), 0);
        let mut messages = MessageDeduplicator::default();
        for item in self.turn_items.values() {
            response::read_item(item, &mut calls, &mut messages, &mut deltas);
        }
        Some(CorrectedContent { deltas, is_damaged: self.fragments.has_damage() })
    }

    fn take_turn(&mut self) -> Vec<Value> {
        drop_snapshots(std::mem::take(&mut self.turn_items).into_values().collect())
    }
}

impl ResponsesReader {
    /// Returns the position of the item that an event belongs to. A known id takes precedence over
    /// the index, because some servers renumber `output_index` or send 0 for all items. An unknown
    /// id is not evidence of a new item, because other servers give an item a new id in each event.
    fn item_position(&mut self, data: &Value) -> u64 {
        let index = data["output_index"].as_u64().unwrap_or_default();
        let ids = [&data["item_id"], &data["item"]["id"]];
        let Some(id) = ids.into_iter().find_map(Value::as_str).filter(|id| !id.is_empty()) else {
            return index;
        };
        if let Some(place) = self.positions.get(id) {
            return *place;
        }
        let begins = data["type"] == "response.output_item.added";
        let is_taken = |place: &u64| {
            self.turn_items.contains_key(place) || (begins && self.items.contains_key(place))
        };
        let place = (index..).find(|place| !is_taken(place)).unwrap_or(index);
        if begins || !self.items.contains_key(&place) {
            self.positions.insert(id.to_owned(), place);
        }
        place
    }

    /// Whether the stream already contained this call. Some servers give the call a new id and
    /// position in the last event.
    fn has_call(&self, item: &Value, output: &[Value]) -> bool {
        let is_alike = |one: &&Value| {
            one["type"] == "function_call"
                && one["name"] == item["name"]
                && one["arguments"] == item["arguments"]
        };
        item["type"] == "function_call"
            && self.turn_items.values().filter(is_alike).count()
                >= output.iter().filter(is_alike).count()
    }

    fn mark_received(&mut self, position: u64) -> ItemState {
        let state = self.items.entry(position).or_default();
        state.has_fragments = true;
        *state
    }

    /// Returns an item. If the item has no arguments, adds the arguments that arrived before the
    /// call ended.
    fn add_missing_arguments<'a>(&self, position: u64, item: &'a Value) -> Cow<'a, Value> {
        let own = item["arguments"].as_str().unwrap_or_default().trim();
        let is_bare = item["type"] == "function_call" && matches!(own, "" | "{}");
        match self.arguments.get(&position) {
            Some(known) if is_bare => {
                let mut item = item.clone();
                item["arguments"] = known.as_str().into();
                Cow::Owned(item)
            }
            _ => Cow::Borrowed(item),
        }
    }

    /// Handles the complete item that ends an item's events. Some servers send no other event for
    /// the item.
    fn finish_item(&mut self, position: u64, item: &Value, deltas: &mut Vec<Delta>) {
        match self.items.get(&position).copied() {
            None | Some(ItemState { call_index: None, has_fragments: false }) => {
                response::read_item(item, &mut self.call_count, &mut self.messages, deltas);
            }
            Some(ItemState { call_index: Some(index), has_fragments: false }) => {
                let text = item["arguments"].as_str().unwrap_or_default().to_owned();
                deltas.push(Delta::Arguments { index, text });
            }
            Some(ItemState { has_fragments: true, .. }) => {
                let arguments = self.arguments.get(&position).map(String::as_str);
                self.fragments.compare(position, item, arguments);
                // Only the complete item has the signature.
                let signature = item["encrypted_content"].as_str();
                deltas.extend(signature.map(|signature| Delta::Signature(signature.to_owned())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ResponsesReader;
    use crate::{StreamReader, neutral::CollectedResponse, sse};

    /// Reads a stream with two calls. `positions` contains the index and id of each event.
    fn calls(positions: [[(u64, &str); 3]; 2]) -> Vec<(String, String)> {
        let mut reader = ResponsesReader::default();
        let mut events = Vec::new();
        for (number, of) in positions.into_iter().enumerate() {
            let item = |id: &str, arguments: String| {
                json!({"type": "function_call", "id": id, "call_id": format!("c{number}"), "name": "shell",
                    "arguments": arguments})
            };
            let whole = format!("{{\"n\": {number}}}");
            let [added, delta, done] = of;
            events.push(json!({"type": "response.output_item.added", "output_index": added.0,
                "item": item(added.1, String::new())}));
            events.push(
                json!({"type": "response.function_call_arguments.delta", "output_index": delta.0,
                "item_id": delta.1, "delta": whole}),
            );
            events.push(json!({"type": "response.output_item.done", "output_index": done.0,
                "item": item(done.1, whole)}));
        }
        let read = |event: &Value, reader: &mut ResponsesReader| {
            reader
                .read(&sse::parse_event(format!("data: {event}\n\n").into()))
                .expect("a valid event")
        };
        let deltas = events.iter().flat_map(|event| read(event, &mut reader)).collect();
        let whole = CollectedResponse::from_deltas(deltas);
        assert_eq!(reader.take_turn().len(), 2);
        whole.calls().map(|call| (call.id.clone(), call.arguments.clone())).collect()
    }

    #[test]
    fn stream_separates_items_by_id_or_index() {
        let wanted = vec![
            ("c0".to_owned(), "{\"n\": 0}".to_owned()),
            ("c1".to_owned(), "{\"n\": 1}".to_owned()),
        ];
        for places in [
            [[(0, "a"), (0, "a"), (0, "a")], [(1, "b"), (1, "b"), (1, "b")]],
            // The index changes within an item.
            [[(0, "a"), (3, "a"), (1, "a")], [(1, "b"), (0, "b"), (4, "b")]],
            // Every index is 0.
            [[(0, "a"), (0, "a"), (0, "a")], [(0, "b"), (0, "b"), (0, "b")]],
            // Each event has a different id.
            [[(0, "a"), (0, "b"), (0, "c")], [(1, "d"), (1, "e"), (1, "f")]],
        ] {
            assert_eq!(calls(places), wanted, "{places:?}");
        }
    }

    #[test]
    fn stream_keeps_arguments_of_the_done_event() {
        let item = |arguments: &str| {
            json!({"type": "function_call", "id": "a", "call_id": "c", "name": "shell",
                "arguments": arguments})
        };
        let whole = "{\"n\": 0}";
        let done = json!({"type": "response.function_call_arguments.done", "item_id": "a", "arguments": whole});
        let delta = json!({"type": "response.function_call_arguments.delta", "item_id": "a", "delta": whole});
        for (before, end) in [
            (vec![done.clone()], ""),
            (vec![done.clone()], "{}"),
            (vec![delta.clone()], "{}"),
            (vec![delta, done], whole),
        ] {
            let mut events = vec![json!({"type": "response.output_item.added", "item": item("")})];
            events.extend(before);
            events.push(json!({"type": "response.output_item.done", "item": item(end)}));
            let mut reader = ResponsesReader::default();
            let mut deltas = Vec::new();
            for event in events {
                let event = sse::parse_event(format!("data: {event}\n\n").into());
                deltas.extend(reader.read(&event).expect("a valid event"));
            }
            let read = CollectedResponse::from_deltas(deltas);
            let arguments: Vec<_> = read.calls().map(|call| call.arguments.as_str()).collect();
            assert_eq!(arguments, [whole], "{end}");
            assert_eq!(reader.take_turn()[0]["arguments"], whole, "{end}");
        }
    }

    #[test]
    fn stream_recognizes_a_renamed_call_in_the_last_event() {
        let call = |id: &str| json!({"type": "function_call", "id": id, "call_id": format!("c_{id}"), "name": "shell", "arguments": "{\"n\": 0}"});
        let thought = json!({"type": "reasoning", "id": "r", "summary": []});
        let added = json!({"type": "response.output_item.added", "item": call("a")});
        let done = json!({"type": "response.output_item.done", "item": call("a")});
        for (name, output, wanted) in [
            ("response.completed", json!([thought, call("b")]), vec!["c_a"]),
            ("response.done", json!([call("a")]), vec!["c_a"]),
            // Two calls, one of which the stream already contained.
            ("response.completed", json!([call("a"), call("b")]), vec!["c_a", "c_b"]),
        ] {
            let end = json!({"type": name, "response": {"status": "completed", "output": output}});
            let mut reader = ResponsesReader::default();
            let mut deltas = Vec::new();
            for event in [&added, &done, &end] {
                let event = sse::parse_event(format!("data: {event}\n\n").into());
                deltas.extend(reader.read(&event).expect("a valid event"));
            }
            assert!(reader.has_ended());
            let whole = CollectedResponse::from_deltas(deltas);
            let ids: Vec<_> = whole.calls().map(|call| call.id.as_str()).collect();
            assert_eq!(ids, wanted, "{end}");
        }
    }
}
