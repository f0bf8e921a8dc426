use proctor_types::{ToolCall, Usage};
use serde_json::{Value, json};

use super::response;
use crate::{
    ReadError, StreamReader, StreamWriter, lenient_json,
    neutral::{Delta, Item, StopReason},
    sse,
};

/// Reads a stream. The format has no end event: the stream ends with the connection.
#[derive(Debug, Default)]
pub struct GeminiReader {
    has_started: bool,
    calls: response::CallTracker,
    parts: Vec<Value>,
}

impl StreamReader for GeminiReader {
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, ReadError> {
        if event.data.is_empty() {
            return Ok(Vec::new());
        }
        if event.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let data: Value = lenient_json::parse(event.data.as_bytes())
            .map_err(|error| ReadError::Corrupted(format!("an event is not JSON: {error}")))?;
        if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
            return Err(format!("error in the stream: {error}").into());
        }
        response::reject_aborted(&data)?;
        let mut deltas = Vec::new();
        if !std::mem::replace(&mut self.has_started, true) {
            deltas.push(response::started_delta(&data));
        }
        response::read_parts(&data, &mut self.calls, &mut deltas);
        response::add_parts(&mut self.parts, &data);
        let stop = response::read_stop_reason(&data);
        if let Some(StopReason::Other(word)) = &stop
            && data["candidates"][0].is_null()
            && !self.parts.is_empty()
        {
            return Err(format!("the endpoint aborted the response: {word}").into());
        }
        deltas.extend(response::blocked_delta(&data));
        if stop.is_some() {
            self.calls.finish_call(&mut deltas);
        }
        deltas.extend(stop.map(Delta::Stopped));
        deltas.extend(response::usage(&data).map(Delta::Usage));
        Ok(deltas)
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn take_turn(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.parts)
    }
}

/// Writes a stream. Calls are written at the end, because the format cannot split their arguments.
#[derive(Debug, Default)]
pub struct GeminiWriter {
    id: String,
    model: String,
    calls: Vec<ToolCall>,
    stop_reason: Option<StopReason>,
}

impl GeminiWriter {
    fn write_event(&self, parts: Vec<Value>, end: Option<(&StopReason, &Usage)>, out: &mut String) {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some((stop, _)) = end {
            candidate["finishReason"] = response::finish_reason(stop).into();
        }
        let mut data = json!({
            "candidates": [candidate], "modelVersion": self.model, "responseId": self.id,
        });
        if let Some((_, usage)) = end {
            data["usageMetadata"] = response::write_usage(usage);
        }
        sse::write(out, None, &data);
    }
}

impl StreamWriter for GeminiWriter {
    fn write(&mut self, delta: &Delta, out: &mut String) {
        match delta {
            Delta::Started { model } => {
                (self.id, self.model) = (super::super::fresh_response_id(""), model.clone());
            }
            Delta::Text(text) | Delta::Refusal(text) => {
                self.write_event(vec![json!({ "text": text })], None, out);
            }
            Delta::Reasoning(text) => {
                self.write_event(vec![json!({"text": text, "thought": true})], None, out);
            }
            Delta::Call { id, name, .. } => {
                let (id, name) = (id.clone(), name.clone());
                self.calls.push(ToolCall { id, name, arguments: String::new() });
            }
            Delta::Arguments { index, text } => {
                if let Some(call) = self.calls.get_mut(*index) {
                    call.arguments.push_str(text);
                }
            }
            Delta::Stopped(stop) => self.stop_reason = Some(stop.clone()),
            Delta::Signature(_) | Delta::Extra { .. } | Delta::Usage(_) => {}
        }
    }

    fn end(&mut self, usage: &Usage, out: &mut String) {
        let calls = std::mem::take(&mut self.calls);
        let mut parts: Vec<_> =
            calls.into_iter().map(|call| response::write_part(&Item::Call(call))).collect();
        if parts.is_empty() {
            parts.push(json!({"text": ""}));
        }
        let stop = self.stop_reason.take().unwrap_or_default();
        self.write_event(parts, Some((&stop, usage)), out);
    }
}
