//! The OpenAI Chat Completions format: complete responses, chunks of streamed responses, and error
//! objects.

use serde_json::{Map, Value, json};

use crate::{
    Answer, TokenCounts, UsageSpec,
    matching::{RequestKey, message_text},
};

/// The creation time in all responses. It is constant, so that responses to identical requests are
/// identical byte for byte.
pub(crate) const CREATED: u64 = 1_700_000_000;

/// Number of text bytes in each chunk of a stream.
const CHUNK_BYTES: usize = 12;

/// A response, together with the request that it answers.
pub(crate) struct Reply<'a> {
    pub answer: &'a Answer,
    pub id: String,
    pub model: String,
    pub turn: usize,
    pub usage: Option<TokenCounts>,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(
        answer: &'a Answer,
        request: &Value,
        key: &RequestKey,
        fallback: &str,
    ) -> Self {
        let model = request["model"].as_str().unwrap_or(fallback).to_owned();
        Self {
            answer,
            id: format!("chatcmpl-scripted-{}", key.turn),
            model,
            turn: key.turn,
            usage: usage(answer, request),
        }
    }

    /// Returns the body of a non-streamed response.
    pub(crate) fn response_body(&self) -> Value {
        let answer = self.answer;
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let silent = answer.content.is_empty() && !answer.tool_calls.is_empty();
        let content = if silent { Value::Null } else { answer.content.as_str().into() };
        message.insert("content".into(), content);
        message.insert("refusal".into(), json!(answer.refusal));
        if let Some(reasoning) = &answer.reasoning_content {
            message.insert("reasoning_content".into(), reasoning.as_str().into());
        }
        if !answer.tool_calls.is_empty() {
            let calls: Vec<_> =
                (0..answer.tool_calls.len()).map(|at| self.call_object(at)).collect();
            message.insert("tool_calls".into(), calls.into());
        }
        message.extend(answer.extra.clone());
        let choice = json!({
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": self.finish_reason(),
        });
        self.envelope("chat.completion", vec![choice], self.usage)
    }

    /// Returns a completion that has usage but no choice. Such a completion is billed but useless.
    pub(crate) fn body_without_choices(&self) -> Value {
        self.envelope("chat.completion", Vec::new(), self.usage)
    }

    /// Returns the chunks of a streamed response, without the final `[DONE]`.
    pub(crate) fn chunks(&self, includes_usage: bool) -> Vec<Value> {
        let answer = self.answer;
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        for piece in split_chunks(answer.reasoning_content.as_deref().unwrap_or_default()) {
            deltas.push(json!({ "reasoning_content": piece }));
        }
        deltas.extend(split_chunks(&answer.content).map(|piece| json!({ "content": piece })));
        if let Some(refusal) = &answer.refusal {
            deltas.push(json!({ "refusal": refusal }));
        }
        for (index, one) in answer.tool_calls.iter().enumerate() {
            let mut head = self.call_object(index);
            head["index"] = index.into();
            head["function"]["arguments"] = "".into();
            deltas.push(json!({ "tool_calls": [head] }));
            for piece in split_chunks(&one.arguments_text()) {
                let part = json!({"index": index, "function": {"arguments": piece}});
                deltas.push(json!({ "tool_calls": [part] }));
            }
        }
        if !answer.extra.is_empty() {
            deltas.push(Value::Object(answer.extra.clone()));
        }
        let mut chunks: Vec<_> = deltas
            .into_iter()
            .map(|delta| self.chunk(delta, Value::Null))
            .chain([self.chunk(json!({}), self.finish_reason())])
            .collect();
        if includes_usage && let Some(usage) = &self.usage {
            chunks.push(self.envelope("chat.completion.chunk", Vec::new(), Some(*usage)));
        }
        chunks
    }

    fn chunk(&self, delta: Value, finish_reason: Value) -> Value {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        self.envelope("chat.completion.chunk", vec![choice], None)
    }

    fn call_object(&self, index: usize) -> Value {
        let call = &self.answer.tool_calls[index];
        json!({
            "id": format!("call_{}_{index}", self.turn),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments_text()},
        })
    }

    fn finish_reason(&self) -> Value {
        match &self.answer.finish_reason {
            Some(reason) => reason.as_str().into(),
            None if self.answer.tool_calls.is_empty() => "stop".into(),
            None => "tool_calls".into(),
        }
    }

    fn envelope(&self, object: &str, choices: Vec<Value>, usage: Option<TokenCounts>) -> Value {
        let mut body = json!({
            "id": self.id,
            "object": object,
            "created": CREATED,
            "model": self.model,
            "choices": choices,
        });
        if let (Some(usage), Some(body)) = (usage, body.as_object_mut()) {
            body.insert("usage".into(), usage_object(&usage));
        }
        body
    }
}

/// Splits text at character boundaries into pieces of about [`CHUNK_BYTES`] bytes.
pub(crate) fn split_chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(CHUNK_BYTES);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn usage(answer: &Answer, request: &Value) -> Option<TokenCounts> {
    match answer.usage {
        UsageSpec::Counted(false) => None,
        UsageSpec::Given(given) => Some(given),
        UsageSpec::Counted(true) => {
            let none = Vec::new();
            let messages = request["messages"].as_array().unwrap_or(&none);
            let said: usize = messages.iter().map(|message| message_text(message).len()).sum();
            // Endpoints that pass tool definitions to the model count them as input tokens.
            let tools = &request["tools"];
            let asked = said + if tools.is_null() { 0 } else { tools.to_string().len() };
            let reasoned = answer.reasoning_content.as_deref().unwrap_or_default().len();
            let called: usize =
                answer.tool_calls.iter().map(|call| call.arguments_text().len()).sum();
            let said = answer.content.len() + called + reasoned;
            let (input, output) = (estimate_tokens(asked), estimate_tokens(said));
            Some(TokenCounts { input, output, cached: 0, reasoning: estimate_tokens(reasoned) })
        }
    }
}

fn usage_object(usage: &TokenCounts) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

fn estimate_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// Returns an error object in the endpoint's format.
pub(crate) fn error(message: &str, kind: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}
