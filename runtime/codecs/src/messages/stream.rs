use proctor_types::Usage;
use serde_json::{Map, Value, json};

use super::response;
use crate::{
    ReadError, StreamReader, StreamWriter, lenient_json, native,
    neutral::{Delta, StopReason},
    sse,
};

#[derive(Debug, Default)]
pub struct MessagesReader {
    has_ended: bool,
    /// Block numbers of calls, and whether their arguments have arrived.
    calls: Vec<(u64, bool)>,
    /// Content blocks in the endpoint's format, by number. Arguments are collected as text until
    /// the block ends.
    blocks: Vec<(u64, Value, String)>,
    /// The usage so far. The endpoint reports the input at the start and the output at the end.
    usage: Map<String, Value>,
}

impl StreamReader for MessagesReader {
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, ReadError> {
        if event.data.is_empty() {
            return Ok(Vec::new());
        }
        if event.data.trim() == "[DONE]" {
            self.has_ended = true;
            return Ok(Vec::new());
        }
        let data: Value = lenient_json::parse(event.data.as_bytes())
            .map_err(|error| ReadError::Corrupted(format!("an event is not JSON: {error}")))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut deltas = Vec::new();
        match data["type"].as_str().unwrap_or(&event.name) {
            "message_start" => {
                let message = &data["message"];
                deltas.push(Delta::Started { model: text(&message["model"]) });
                self.merge_usage(&message["usage"]);
            }
            "content_block_start" => {
                let number = data["index"].as_u64().unwrap_or_default();
                self.blocks.push((number, data["content_block"].clone(), String::new()));
                self.start_block(&data, &mut deltas);
            }
            "content_block_delta" => {
                self.add_to_block(&data);
                self.read_block_delta(&data, &mut deltas)?;
            }
            "content_block_stop" => {
                let block = data["index"].as_u64().unwrap_or_default();
                let call = self.calls.iter().position(|(one, argued)| *one == block && !argued);
                // A call without arguments gets an empty object.
                let none = |index| Delta::Arguments { index, text: "{}".into() };
                deltas.extend(call.map(none));
            }
            "message_delta" => {
                self.merge_usage(&data["usage"]);
                response::reject_aborted(&data["delta"])?;
                if data["delta"]["stop_reason"].is_string() {
                    deltas.push(Delta::Stopped(response::read_stop_reason(&data["delta"])));
                }
                let usage = json!({"usage": self.usage});
                deltas.extend(response::usage(&usage).map(Delta::Usage));
            }
            "message_stop" => self.has_ended = true,
            "error" => return Err(format!("error in the stream: {}", data["error"]).into()),
            _ => {}
        }
        Ok(deltas)
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn take_turn(&mut self) -> Vec<Value> {
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let whole = blocks.map(|(_, mut block, input)| {
            if !input.is_empty() {
                block["input"] = input.into();
            }
            response::repair_input(&mut block);
            block
        });
        whole.collect()
    }
}

impl MessagesReader {
    fn merge_usage(&mut self, usage: &Value) {
        let given = usage.as_object().into_iter().flatten();
        // `cache_creation` is an object with the written tokens by cache lifetime.
        for (name, count) in given.filter(|(_, count)| count.is_u64() || count.is_object()) {
            self.usage.insert(name.clone(), count.clone());
        }
    }

    /// Adds a fragment to its block.
    fn add_to_block(&mut self, data: &Value) {
        let number = data["index"].as_u64().unwrap_or_default();
        let Some((_, block, input)) = self.blocks.iter_mut().rfind(|(one, ..)| *one == number)
        else {
            return;
        };
        let (Some(block), Some(delta)) = (block.as_object_mut(), data["delta"].as_object()) else {
            return;
        };
        for (name, piece) in delta {
            match name.as_str() {
                "type" => {}
                "partial_json" => input.push_str(piece.as_str().unwrap_or_default()),
                "citation" => {
                    let citations = block.entry("citations").or_insert_with(|| json!([]));
                    if !citations.is_array() {
                        *citations = json!([]);
                    }
                    citations.as_array_mut().into_iter().for_each(|list| list.push(piece.clone()));
                }
                _ => native::merge_member(block, name, piece),
            }
        }
    }

    fn start_block(&mut self, data: &Value, deltas: &mut Vec<Delta>) {
        let block = &data["content_block"];
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str().unwrap_or_default() {
            "text" if !text("text").is_empty() => deltas.push(Delta::Text(text("text"))),
            "thinking" if !text("thinking").is_empty() => {
                deltas.push(Delta::Reasoning(text("thinking")));
            }
            "tool_use" => {
                let index = self.calls.len();
                deltas.push(Delta::Call { index, id: text("id"), name: text("name") });
                let text = response::arguments_text(&block["input"]);
                let whole = text.trim() != "{}";
                if whole {
                    deltas.push(Delta::Arguments { index, text });
                }
                self.calls.push((data["index"].as_u64().unwrap_or_default(), whole));
            }
            _ => {}
        }
    }

    fn read_block_delta(&mut self, data: &Value, deltas: &mut Vec<Delta>) -> Result<(), ReadError> {
        let delta = &data["delta"];
        let text = |name: &str| delta[name].as_str().unwrap_or_default().to_owned();
        match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => deltas.push(Delta::Text(text("text"))),
            "thinking_delta" => deltas.push(Delta::Reasoning(text("thinking"))),
            "signature_delta" if !text("signature").is_empty() => {
                deltas.push(Delta::Signature(text("signature")));
            }
            "input_json_delta" => {
                let block = data["index"].as_u64().unwrap_or_default();
                let piece = text("partial_json");
                let found = self.calls.iter_mut().enumerate().find(|(_, (one, _))| *one == block);
                let of_text = self.blocks.iter().rev().find(|(one, ..)| *one == block);
                if found.is_none() && of_text.is_some_and(|(_, block, _)| block["type"] == "text") {
                    let why = "tool input within a text block";
                    return Err(ReadError::Corrupted(why.into()));
                }
                if let Some((index, (_, argued))) = found
                    && !piece.is_empty()
                {
                    *argued = true;
                    deltas.push(Delta::Arguments { index, text: piece });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    Text,
    Thinking,
    Call(usize),
}

#[derive(Debug, Default)]
pub struct MessagesWriter {
    /// The number of the next block.
    next_block: usize,
    open_block: Option<OpenBlock>,
    /// Block numbers of the calls.
    calls: Vec<usize>,
    stop_reason: Option<StopReason>,
}

impl MessagesWriter {
    fn write_event(out: &mut String, name: &str, mut data: Value) {
        data["type"] = name.into();
        sse::write(out, Some(name), &data);
    }

    fn close_block(&mut self, out: &mut String) {
        if let Some(open) = self.open_block.take() {
            let index = match open {
                OpenBlock::Call(call) => self.calls.get(call).copied().unwrap_or_default(),
                _ => self.next_block.saturating_sub(1),
            };
            Self::write_event(out, "content_block_stop", json!({"index": index}));
        }
    }

    /// Opens a block, unless one of the same kind is already open.
    fn open_block(&mut self, kind: OpenBlock, block: Value, out: &mut String) {
        if self.open_block == Some(kind) {
            return;
        }
        self.close_block(out);
        let data = json!({"index": self.next_block, "content_block": block});
        Self::write_event(out, "content_block_start", data);
        self.open_block = Some(kind);
        self.next_block += 1;
    }

    fn write_block_delta(&self, delta: Value, out: &mut String) {
        let data = json!({"index": self.next_block.saturating_sub(1), "delta": delta});
        Self::write_event(out, "content_block_delta", data);
    }

    fn empty_thinking_block() -> Value {
        json!({"type": "thinking", "thinking": "", "signature": ""})
    }
}

impl StreamWriter for MessagesWriter {
    fn write(&mut self, delta: &Delta, out: &mut String) {
        match delta {
            Delta::Started { model } => {
                let id = super::super::fresh_response_id("msg_");
                // Other endpoints report the input count at the end, or not at all.
                let message = json!({
                    "id": id, "type": "message", "role": "assistant", "model": model,
                    "content": [], "stop_reason": null, "stop_sequence": null,
                    "usage": response::write_usage(&Usage::default()),
                });
                Self::write_event(out, "message_start", json!({"message": message}));
            }
            Delta::Text(text) | Delta::Refusal(text) => {
                self.open_block(OpenBlock::Text, json!({"type": "text", "text": ""}), out);
                self.write_block_delta(json!({"type": "text_delta", "text": text}), out);
            }
            Delta::Reasoning(text) => {
                self.open_block(OpenBlock::Thinking, Self::empty_thinking_block(), out);
                self.write_block_delta(json!({"type": "thinking_delta", "thinking": text}), out);
            }
            Delta::Signature(signature) => {
                self.open_block(OpenBlock::Thinking, Self::empty_thinking_block(), out);
                self.write_block_delta(
                    json!({"type": "signature_delta", "signature": signature}),
                    out,
                );
                self.close_block(out);
            }
            Delta::Call { index, id, name } => {
                self.calls.push(self.next_block);
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.open_block(OpenBlock::Call(*index), block, out);
            }
            Delta::Arguments { index, text } => {
                let block = self.calls.get(*index).copied().unwrap_or_default();
                let delta = json!({"type": "input_json_delta", "partial_json": text});
                let data = json!({"index": block, "delta": delta});
                Self::write_event(out, "content_block_delta", data);
            }
            Delta::Stopped(stop) => self.stop_reason = Some(stop.clone()),
            Delta::Extra { .. } | Delta::Usage(_) => {}
        }
    }

    fn end(&mut self, usage: &Usage, out: &mut String) {
        self.close_block(out);
        let stop = match self.stop_reason.take().unwrap_or_default() {
            StopReason::End if !self.calls.is_empty() => StopReason::Calls,
            stop => stop,
        };
        let (reason, sequence) = response::write_stop_reason(&stop);
        let data = json!({
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": response::write_usage(usage),
        });
        Self::write_event(out, "message_delta", data);
        Self::write_event(out, "message_stop", json!({}));
    }
}
