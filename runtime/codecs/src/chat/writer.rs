//! Writes a response as a stream of chunks.

use proctor_types::Usage;
use serde_json::{Map, Value, json};

use super::response;
use crate::{
    StreamWriter,
    neutral::{Delta, StopReason},
    sse,
};

#[derive(Debug)]
pub struct ChatWriter {
    id: String,
    model: String,
    created_at: u64,
    includes_usage: bool,
    has_calls: bool,
    stop_reason: Option<StopReason>,
}

impl ChatWriter {
    pub fn new(request: &Map<String, Value>) -> Self {
        let asked = request.get("stream_options").map(|options| &options["include_usage"]);
        Self {
            id: String::new(),
            model: String::new(),
            created_at: super::super::unix_seconds(),
            includes_usage: asked == Some(&Value::Bool(true)),
            has_calls: false,
            stop_reason: None,
        }
    }

    fn write_chunk(&self, out: &mut String, choices: Value, usage: Option<Value>) {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created_at,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        sse::write(out, None, &chunk);
    }

    fn write_delta(&self, out: &mut String, delta: Value) {
        self.write_chunk(out, json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);
    }
}

impl StreamWriter for ChatWriter {
    fn write(&mut self, delta: &Delta, out: &mut String) {
        match delta {
            Delta::Started { model } => {
                (self.id, self.model) =
                    (super::super::fresh_response_id("chatcmpl-"), model.clone());
                self.write_delta(out, json!({"role": "assistant", "content": ""}));
            }
            Delta::Text(text) => self.write_delta(out, json!({"content": text})),
            Delta::Refusal(text) => self.write_delta(out, json!({"refusal": text})),
            Delta::Reasoning(text) => self.write_delta(out, json!({"reasoning_content": text})),
            Delta::Signature(signature) => {
                self.write_delta(
                    out,
                    json!({"reasoning_details": [response::reasoning_detail(None, signature)]}),
                );
            }
            Delta::Call { index, id, name } => {
                self.has_calls = true;
                let function = json!({"name": name, "arguments": ""});
                let call = json!(
                    {"index": index, "id": id, "type": "function", "function": function}
                );
                self.write_delta(out, json!({"tool_calls": [call]}));
            }
            Delta::Arguments { index, text } => {
                let call = json!({"index": index, "function": {"arguments": text}});
                self.write_delta(out, json!({"tool_calls": [call]}));
            }
            Delta::Stopped(stop) => self.stop_reason = Some(stop.clone()),
            Delta::Extra { .. } | Delta::Usage(_) => {}
        }
    }

    fn end(&mut self, usage: &Usage, out: &mut String) {
        let stop = match self.stop_reason.take().unwrap_or_default() {
            StopReason::End if self.has_calls => StopReason::Calls,
            stop => stop,
        };
        let reason = response::finish_reason(&stop);
        self.write_chunk(out, json!([{"index": 0, "delta": {}, "finish_reason": reason}]), None);
        if self.includes_usage {
            self.write_chunk(out, json!([]), Some(response::write_usage(usage)));
        }
        out.push_str("data: [DONE]\n\n");
    }
}
