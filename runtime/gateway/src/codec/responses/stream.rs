use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::answer;
use crate::codec::{ReadError, Reader, neutral::Delta, sse, tolerant};

/// What has arrived of an item, by its position in the output.
#[derive(Debug, Default, Clone, Copy)]
struct Heard {
    /// Its position among the calls.
    call: Option<usize>,
    /// Pieces arrived, so the complete item at the end adds nothing.
    pieces: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ResponsesReader {
    done: bool,
    calls: usize,
    items: HashMap<u64, Heard>,
    /// Items in the endpoint's format, by their position in the output.
    turn: BTreeMap<u64, Value>,
}

impl Reader for ResponsesReader {
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, ReadError> {
        if event.data.is_empty() || event.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let data: Value = tolerant::value(event.data.as_bytes())
            .map_err(|error| ReadError::Torn(format!("an event is not JSON: {error}")))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let place = data["output_index"].as_u64().unwrap_or_default();
        let mut deltas = Vec::new();
        match data["type"].as_str().unwrap_or(&event.name) {
            "response.created" => {
                deltas.push(Delta::Started { model: text(&data["response"]["model"]) });
            }
            "response.output_item.added" => {
                let item = &data["item"];
                let mut heard = Heard::default();
                if item["type"] == "function_call" {
                    heard.call = Some(self.calls);
                    let (id, name) = (text(&item["call_id"]), text(&item["name"]));
                    deltas.push(Delta::Call { index: self.calls, id, name });
                    self.calls += 1;
                }
                self.items.insert(place, heard);
            }
            "response.output_text.delta" => {
                self.heard(place);
                deltas.push(Delta::Text(text(&data["delta"])));
            }
            "response.refusal.delta" => {
                self.heard(place);
                deltas.push(Delta::Refusal(text(&data["delta"])));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.heard(place);
                deltas.push(Delta::Reasoning(text(&data["delta"])));
            }
            "response.reasoning_summary_part.added"
                if data["summary_index"].as_u64().is_some_and(|index| index > 0) =>
            {
                deltas.push(Delta::Reasoning("\n\n".into()));
            }
            "response.function_call_arguments.delta" => {
                if let Some(index) = self.heard(place).call {
                    deltas.push(Delta::Arguments { index, text: text(&data["delta"]) });
                }
            }
            "response.output_item.done" => {
                self.turn.extend(answer::sent_back(&data["item"]).map(|item| (place, item)));
                self.item(place, &data["item"], &mut deltas);
            }
            "response.completed" | "response.incomplete" => {
                self.done = true;
                let response = &data["response"];
                // Some servers send the items only here.
                for (place, item) in (0..).zip(response["output"].as_array().into_iter().flatten())
                {
                    if !self.turn.contains_key(&place) {
                        self.turn.extend(answer::sent_back(item).map(|item| (place, item)));
                        self.item(place, item, &mut deltas);
                    }
                }
                deltas.push(Delta::Stopped(answer::read_stop(response)?));
                deltas.extend(answer::usage(response).map(Delta::Usage));
            }
            "response.failed" => {
                return Err(format!("the response failed: {}", data["response"]["error"]).into());
            }
            "error" => return Err(format!("an error within the stream: {data}").into()),
            _ => {}
        }
        Ok(deltas)
    }

    fn ended(&self) -> bool {
        self.done
    }

    fn turn(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.turn).into_values().collect()
    }
}

impl ResponsesReader {
    fn heard(&mut self, place: u64) -> Heard {
        let heard = self.items.entry(place).or_default();
        heard.pieces = true;
        *heard
    }

    /// The complete item at its end. Some servers send nothing of it before.
    fn item(&mut self, place: u64, item: &Value, deltas: &mut Vec<Delta>) {
        match self.items.get(&place).copied() {
            None | Some(Heard { call: None, pieces: false }) => {
                answer::read_item(item, &mut self.calls, deltas);
            }
            Some(Heard { call: Some(index), pieces: false }) => {
                let text = item["arguments"].as_str().unwrap_or_default().to_owned();
                deltas.push(Delta::Arguments { index, text });
            }
            Some(Heard { pieces: true, .. }) => {
                // Only the complete item has the signature.
                let signature = item["encrypted_content"].as_str();
                deltas.extend(signature.map(|signature| Delta::Signature(signature.to_owned())));
            }
        }
    }
}
