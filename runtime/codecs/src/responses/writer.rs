use proctor_types::{ToolCall, Usage};
use serde_json::{Map, Value, json};

use super::items;
use crate::{
    Writer,
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
    sequence: u64,
    items: Vec<Item>,
    /// Whether the last item is still open.
    open: bool,
    /// Positions of the calls among the items.
    calls: Vec<usize>,
    stop: Option<StopReason>,
}

impl ResponsesWriter {
    pub fn new(request: &Map<String, Value>) -> Self {
        Self {
            request: request.clone(),
            id: String::new(),
            model: String::new(),
            sequence: 0,
            items: Vec::new(),
            open: false,
            calls: Vec::new(),
            stop: None,
        }
    }

    fn event(&mut self, out: &mut String, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        sse::write(out, Some(name), &data);
    }

    fn last_index(&self) -> usize {
        self.items.len().saturating_sub(1)
    }

    /// Opens an item and its part.
    fn open_item(&mut self, item: Item, out: &mut String) {
        self.close(out);
        let number = self.items.len();
        let mut shown = items::item(&item, number, "in_progress");
        if shown["type"] == "message" {
            shown["content"] = json!([]);
        }
        let id = items::id(&item, number);
        let added = json!({"output_index": number, "item": shown});
        self.event(out, "response.output_item.added", added);
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
            self.event(out, name, data);
        }
        self.items.push(item);
        self.open = true;
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
        let id = items::id(item, number);
        let mut data = json!({"item_id": id, "output_index": number, "delta": delta});
        data[Self::part_index_field(item)] = 0.into();
        if matches!(item, Item::Text(_)) {
            data["logprobs"] = json!([]);
        }
        self.event(out, name, data);
    }

    /// Closes the last item.
    fn close(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let number = self.last_index();
        let Some(item) = self.items.get(number).cloned() else { return };
        let base = || {
            let mut data = json!({"item_id": items::id(&item, number), "output_index": number});
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
                self.event(out, "response.output_text.done", data);
                let part = with("part", items::text_part(text));
                self.event(out, "response.content_part.done", part);
            }
            Item::Refusal(text) => {
                let data = with("refusal", text.as_str().into());
                self.event(out, "response.refusal.done", data);
                let part = with("part", json!({"type": "refusal", "refusal": text}));
                self.event(out, "response.content_part.done", part);
            }
            Item::Reasoning(thought) => {
                let data = with("text", thought.text.as_str().into());
                self.event(out, "response.reasoning_summary_text.done", data);
                let part = json!({"type": "summary_text", "text": thought.text});
                self.event(out, "response.reasoning_summary_part.done", with("part", part));
            }
            // The arguments of a call may continue until the response ends.
            Item::Call(_) => return,
        }
        self.write_item_done(number, out);
    }

    fn write_item_done(&mut self, number: usize, out: &mut String) {
        let Some(item) = self.items.get(number) else { return };
        let item = items::item(item, number, "completed");
        let data = json!({"output_index": number, "item": item});
        self.event(out, "response.output_item.done", data);
    }

    fn response(&self, stop: Option<&StopReason>, usage: Option<&Usage>) -> Value {
        let output = match stop {
            None => Vec::new(),
            Some(_) => {
                let items = self.items.iter().enumerate();
                items.map(|(number, item)| items::item(item, number, "completed")).collect()
            }
        };
        items::response(&self.request, &self.id, &self.model, output, stop, usage)
    }
}

impl Writer for ResponsesWriter {
    fn write(&mut self, delta: &Delta, out: &mut String) {
        match delta {
            Delta::Started { model } => {
                (self.id, self.model) = (super::super::fresh_response_id("resp_"), model.clone());
                let response = self.response(None, None);
                let data = json!({ "response": response });
                self.event(out, "response.created", data.clone());
                self.event(out, "response.in_progress", data);
            }
            Delta::Text(text) => {
                if !self.open || !matches!(self.items.last(), Some(Item::Text(_))) {
                    self.open_item(Item::Text(String::new()), out);
                }
                if let Some(Item::Text(all)) = self.items.last_mut() {
                    all.push_str(text);
                }
                self.write_delta("response.output_text.delta", text, out);
            }
            Delta::Refusal(text) => {
                if !self.open || !matches!(self.items.last(), Some(Item::Refusal(_))) {
                    self.open_item(Item::Refusal(String::new()), out);
                }
                if let Some(Item::Refusal(all)) = self.items.last_mut() {
                    all.push_str(text);
                }
                self.write_delta("response.refusal.delta", text, out);
            }
            Delta::Reasoning(text) => {
                if !self.open || !matches!(self.items.last(), Some(Item::Reasoning(_))) {
                    self.open_item(Item::Reasoning(Reasoning::default()), out);
                }
                if let Some(Item::Reasoning(thought)) = self.items.last_mut() {
                    thought.text.push_str(text);
                }
                self.write_delta("response.reasoning_summary_text.delta", text, out);
            }
            Delta::Signature(signature) => {
                if !self.open || !matches!(self.items.last(), Some(Item::Reasoning(_))) {
                    self.open_item(Item::Reasoning(Reasoning::default()), out);
                }
                if let Some(Item::Reasoning(thought)) = self.items.last_mut() {
                    thought.signature = Some(signature.clone());
                }
                self.close(out);
            }
            Delta::Call { id, name, .. } => {
                let (id, name) = (id.clone(), name.clone());
                self.calls.push(self.items.len());
                self.open_item(Item::Call(ToolCall { id, name, arguments: String::new() }), out);
            }
            Delta::Arguments { index, text } => {
                let Some(number) = self.calls.get(*index).copied() else { return };
                if let Some(Item::Call(call)) = self.items.get_mut(number) {
                    call.arguments.push_str(text);
                }
                let data = json!({
                    "item_id": format!("fc_{number}"), "output_index": number, "delta": text,
                });
                self.event(out, "response.function_call_arguments.delta", data);
            }
            Delta::Stopped(stop) => self.stop = Some(stop.clone()),
            Delta::Extra { .. } | Delta::Usage(_) => {}
        }
    }

    fn end(&mut self, usage: &Usage, out: &mut String) {
        self.close(out);
        for number in self.calls.clone() {
            if let Some(Item::Call(call)) = self.items.get(number) {
                let data = json!({
                    "item_id": format!("fc_{number}"), "output_index": number,
                    "arguments": call.arguments, "name": call.name,
                });
                self.event(out, "response.function_call_arguments.done", data);
            }
            self.write_item_done(number, out);
        }
        let stop = self.stop.take().unwrap_or_default();
        let response = self.response(Some(&stop), Some(usage));
        let name = match response["status"].as_str() {
            Some("incomplete") => "response.incomplete",
            _ => "response.completed",
        };
        self.event(out, name, json!({ "response": response }));
    }
}
