use proctor_types::{ToolCall, Usage};
use serde_json::{Map, Value, json};

use super::items;
use crate::{
    StreamWriter,
    neutral::{Delta, Item, Reasoning, StopReason},
    sse,
};

/// Writes the full sequence of events. Some clients use only the first and last events, but others
/// check each event against the previous one.
#[derive(Debug)]
pub struct ResponsesWriter {
    request: Map<String, Value>,
    id: String,
    model: String,
    sequence_number: u64,
    items: Vec<Item>,
    /// Whether the last item is still open.
    has_open_item: bool,
    /// Positions of the calls among the items.
    call_positions: Vec<usize>,
    stop_reason: Option<StopReason>,
}

impl ResponsesWriter {
    pub fn new(request: &Map<String, Value>) -> Self {
        Self {
            request: request.clone(),
            id: String::new(),
            model: String::new(),
            sequence_number: 0,
            items: Vec::new(),
            has_open_item: false,
            call_positions: Vec::new(),
            stop_reason: None,
        }
    }

    fn write_event(&mut self, out: &mut String, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.sequence_number.into();
        self.sequence_number += 1;
        sse::write(out, Some(name), &data);
    }

    fn last_index(&self) -> usize {
        self.items.len().saturating_sub(1)
    }

    /// Opens an item and its part.
    fn open_item(&mut self, item: Item, out: &mut String) {
        self.close_item(out);
        let number = self.items.len();
        let mut shown = items::item(&item, number, "in_progress");
        if shown["type"] == "message" {
            shown["content"] = json!([]);
        }
        let id = items::item_id(&item, number);
        let added = json!({"output_index": number, "item": shown});
        self.write_event(out, "response.output_item.added", added);
        let part = match &item {
            Item::Text(_) => Some(("response.content_part.added", items::text_part(""))),
            Item::Refusal(_) => {
                Some(("response.content_part.added", json!({"type": "refusal", "refusal": ""})))
            }
            Item::Reasoning(_) => Some((
                "response.reasoning_summary_part.added",
                json!({"type": "summary_text", "text": ""}),
            )),
            Item::Call(_) => None,
        };
        if let Some((name, part)) = part {
            let mut data = json!({"item_id": id, "output_index": number, "part": part});
            data[Self::part_index_field(&item)] = 0.into();
            self.write_event(out, name, data);
        }
        self.items.push(item);
        self.has_open_item = true;
    }

    /// Returns the field name of a part's index.
    fn part_index_field(item: &Item) -> &'static str {
        match item {
            Item::Reasoning(_) => "summary_index",
            _ => "content_index",
        }
    }

    fn write_delta(&mut self, name: &str, delta: &str, out: &mut String) {
        let number = self.last_index();
        let Some(item) = self.items.get(number) else { return };
        let id = items::item_id(item, number);
        let mut data = json!({"item_id": id, "output_index": number, "delta": delta});
        data[Self::part_index_field(item)] = 0.into();
        if matches!(item, Item::Text(_)) {
            data["logprobs"] = json!([]);
        }
        self.write_event(out, name, data);
    }

    /// Closes the last item.
    fn close_item(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.has_open_item) {
            return;
        }
        let number = self.last_index();
        let Some(item) = self.items.get(number).cloned() else { return };
        let base = || {
            let mut data =
                json!({"item_id": items::item_id(&item, number), "output_index": number});
            if !matches!(item, Item::Call(_)) {
                data[Self::part_index_field(&item)] = 0.into();
            }
            data
        };
        let with = |field: &str, value: Value| {
            let mut data = base();
            data[field] = value;
            data
        };
        match &item {
            Item::Text(text) => {
                let mut data = with("text", text.as_str().into());
                data["logprobs"] = json!([]);
                self.write_event(out, "response.output_text.done", data);
                let part = with("part", items::text_part(text));
                self.write_event(out, "response.content_part.done", part);
            }
            Item::Refusal(text) => {
                let data = with("refusal", text.as_str().into());
                self.write_event(out, "response.refusal.done", data);
                let part = with("part", json!({"type": "refusal", "refusal": text}));
                self.write_event(out, "response.content_part.done", part);
            }
            Item::Reasoning(thought) => {
                let data = with("text", thought.text.as_str().into());
                self.write_event(out, "response.reasoning_summary_text.done", data);
                let part = json!({"type": "summary_text", "text": thought.text});
                self.write_event(out, "response.reasoning_summary_part.done", with("part", part));
            }
            // A call's arguments may continue until the response ends.
            Item::Call(_) => return,
        }
        self.write_item_done(number, out);
    }

    fn write_item_done(&mut self, number: usize, out: &mut String) {
        let Some(item) = self.items.get(number) else { return };
        let item = items::item(item, number, "completed");
        let data = json!({"output_index": number, "item": item});
        self.write_event(out, "response.output_item.done", data);
    }

    fn response_object(&self, stop: Option<&StopReason>, usage: Option<&Usage>) -> Value {
        let output = match stop {
            None => Vec::new(),
            Some(_) => {
                let items = self.items.iter().enumerate();
                items.map(|(number, item)| items::item(item, number, "completed")).collect()
            }
        };
        items::response_object(&self.request, &self.id, &self.model, output, stop, usage)
    }
}

impl StreamWriter for ResponsesWriter {
    fn write(&mut self, delta: &Delta, out: &mut String) {
        match delta {
            Delta::Started { model } => {
                (self.id, self.model) = (super::super::fresh_response_id("resp_"), model.clone());
                let response = self.response_object(None, None);
                let data = json!({ "response": response });
                self.write_event(out, "response.created", data.clone());
                self.write_event(out, "response.in_progress", data);
            }
            Delta::Text(text) => {
                if !self.has_open_item || !matches!(self.items.last(), Some(Item::Text(_))) {
                    self.open_item(Item::Text(String::new()), out);
                }
                if let Some(Item::Text(all)) = self.items.last_mut() {
                    all.push_str(text);
                }
                self.write_delta("response.output_text.delta", text, out);
            }
            Delta::Refusal(text) => {
                if !self.has_open_item || !matches!(self.items.last(), Some(Item::Refusal(_))) {
                    self.open_item(Item::Refusal(String::new()), out);
                }
                if let Some(Item::Refusal(all)) = self.items.last_mut() {
                    all.push_str(text);
                }
                self.write_delta("response.refusal.delta", text, out);
            }
            Delta::Reasoning(text) => {
                if !self.has_open_item || !matches!(self.items.last(), Some(Item::Reasoning(_))) {
                    self.open_item(Item::Reasoning(Reasoning::default()), out);
                }
                if let Some(Item::Reasoning(thought)) = self.items.last_mut() {
                    thought.text.push_str(text);
                }
                self.write_delta("response.reasoning_summary_text.delta", text, out);
            }
            Delta::Signature(signature) => {
                if !self.has_open_item || !matches!(self.items.last(), Some(Item::Reasoning(_))) {
                    self.open_item(Item::Reasoning(Reasoning::default()), out);
                }
                if let Some(Item::Reasoning(thought)) = self.items.last_mut() {
                    thought.signature = Some(signature.clone());
                }
                self.close_item(out);
            }
            Delta::Call { id, name, .. } => {
                let (id, name) = (id.clone(), name.clone());
                self.call_positions.push(self.items.len());
                self.open_item(Item::Call(ToolCall { id, name, arguments: String::new() }), out);
            }
            Delta::Arguments { index, text } => {
                let Some(number) = self.call_positions.get(*index).copied() else { return };
                if let Some(Item::Call(call)) = self.items.get_mut(number) {
                    call.arguments.push_str(text);
                }
                let data = json!({
                    "item_id": format!("fc_{number}"), "output_index": number, "delta": text,
                });
                self.write_event(out, "response.function_call_arguments.delta", data);
            }
            Delta::Stopped(stop) => self.stop_reason = Some(stop.clone()),
            Delta::Extra { .. } | Delta::Usage(_) => {}
        }
    }

    fn end(&mut self, usage: &Usage, out: &mut String) {
        self.close_item(out);
        for number in self.call_positions.clone() {
            if let Some(Item::Call(call)) = self.items.get(number) {
                let data = json!({
                    "item_id": format!("fc_{number}"), "output_index": number,
                    "arguments": call.arguments, "name": call.name,
                });
                self.write_event(out, "response.function_call_arguments.done", data);
            }
            self.write_item_done(number, out);
        }
        let stop = self.stop_reason.take().unwrap_or_default();
        let response = self.response_object(Some(&stop), Some(usage));
        let name = match response["status"].as_str() {
            Some("incomplete") => "response.incomplete",
            _ => "response.completed",
        };
        self.write_event(out, name, json!({ "response": response }));
    }
}
