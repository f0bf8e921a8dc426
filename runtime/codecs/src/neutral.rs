//! Requests and responses in a vendor-neutral format. The format covers only content that at least
//! two wire formats can express. The codecs report all other content as a loss.

use proctor_types::{Api, NativeTurn, ToolCall, Usage};
use serde_json::{Map, Value};

use super::{Losses, image::Image, native};

/// A request for one response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub model: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<Tool>,
    pub tool_choice: Option<ToolChoice>,
    /// Whether one response may contain several calls. `None` selects the provider's default.
    pub allows_parallel_calls: Option<bool>,
    /// Maximum length of the response, in tokens.
    pub max_output: Option<u64>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub stop_sequences: Vec<String>,
    pub seed: Option<i64>,
    pub response_format: Option<ResponseFormat>,
    pub is_streaming: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions, including OpenAI's `developer`.
    System,
    /// Messages of the user, and results of tools.
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub role: Role,
    pub parts: Vec<Part>,
    /// The assistant's turn in the endpoint's format. If the next request uses the same format,
    /// this is sent instead of the parts.
    pub native_turn: Option<NativeTurn>,
}

impl Turn {
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, native_turn: None }
    }

    /// Returns the items to send back unchanged to an endpoint with this format.
    pub fn native_items(&self, api: Api) -> Option<&[Value]> {
        self.native_turn
            .as_ref()
            .filter(|native| native.api == api)
            .map(|native| native.items.as_slice())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Reasoning(Reasoning),
    Call(ToolCall),
    Result {
        id: String,
        content: String,
        is_error: bool,
    },
    /// An image in a user turn. Images from a tool result follow the result.
    Image(Image),
    /// A file or sound, identified by the name of its type in the wire format. No codec can write
    /// such content.
    Media(String),
}

impl Part {
    /// Returns the image, or [`Part::Media`] if it could not be read.
    pub(super) fn image(image: Option<Image>, kind: &str) -> Self {
        image.map_or_else(|| Self::Media(kind.to_owned()), Self::Image)
    }

    /// Returns a tool result's non-text parts, which are placed after the result.
    pub(super) fn non_text_parts(
        parts: Vec<Self>,
        losses: &mut Losses,
    ) -> impl Iterator<Item = Self> {
        if parts.iter().any(|part| matches!(part, Self::Image(_))) {
            losses.add_approximated("an image in a tool result");
        }
        parts.into_iter().filter(|part| matches!(part, Self::Image(_) | Self::Media(_)))
    }
}

/// A part of the model's reasoning: the visible text, and the provider's opaque data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasoning {
    pub text: String,
    /// Opaque data that the provider expects back, such as Anthropic's signature or OpenAI's
    /// encrypted content.
    pub signature: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// JSON Schema of an object.
    pub parameters: Value,
    pub strict: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    Never,
    /// The model must call some tool.
    Any,
    Named(String),
}

/// The required form of the response text.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseFormat {
    Json,
    Schema { name: String, schema: Value, strict: Option<bool> },
}

/// A fragment of a response. Fragments are processed in order of arrival.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Started {
        model: String,
    },
    Text(String),
    Refusal(String),
    Reasoning(String),
    /// Ends the preceding reasoning.
    Signature(String),
    /// Starts a call. `index` counts the response's calls from 0.
    Call {
        index: usize,
        id: String,
        name: String,
    },
    Arguments {
        index: usize,
        text: String,
    },
    /// A vendor field, or a fragment of one.
    Extra {
        field: String,
        value: Value,
    },
    Stopped(StopReason),
    /// The usage so far. If it is reported several times, the last report counts, because some
    /// endpoints report running totals.
    Usage(Usage),
}

impl Delta {
    /// Whether the delta is content or the end of the response.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Started { .. } | Self::Usage(_) => false,
            Self::Text(text) | Self::Refusal(text) | Self::Reasoning(text) => !text.is_empty(),
            Self::Signature(_)
            | Self::Call { .. }
            | Self::Arguments { .. }
            | Self::Extra { .. }
            | Self::Stopped(_) => true,
        }
    }
}

/// The reason why a response ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StopReason {
    #[default]
    End,
    Calls,
    Length,
    /// The conversation fills the context window.
    ContextWindow,
    /// The response reached one of the request's stop sequences.
    StopSequence(Option<String>),
    /// The provider's content filter blocked the response.
    Filter,
    /// The model itself refused.
    Refusal,
    /// Any other reason, in the endpoint's own word.
    Other(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Text(String),
    Refusal(String),
    Reasoning(Reasoning),
    Call(ToolCall),
}

/// A response that is collected from its deltas.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectedResponse {
    pub model: String,
    pub items: Vec<Item>,
    /// Vendor fields that are sent back unchanged.
    pub extra_fields: Map<String, Value>,
    /// `None` until the response has ended.
    pub reported_stop: Option<StopReason>,
    pub usage: Option<Usage>,
    /// The turn in the endpoint's format.
    pub native_turn: Option<NativeTurn>,
}

impl CollectedResponse {
    pub fn from_deltas(deltas: Vec<Delta>) -> Self {
        let mut whole = Self::default();
        for delta in deltas {
            whole.push(delta);
        }
        whole
    }

    pub fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Started { model } => self.model = model,
            Delta::Text(text) => match self.items.last_mut() {
                Some(Item::Text(before)) => before.push_str(&text),
                _ if text.is_empty() => {}
                _ => self.items.push(Item::Text(text)),
            },
            Delta::Refusal(text) => match self.items.last_mut() {
                Some(Item::Refusal(before)) => before.push_str(&text),
                _ if text.is_empty() => {}
                _ => self.items.push(Item::Refusal(text)),
            },
            Delta::Reasoning(text) => match self.items.last_mut() {
                Some(Item::Reasoning(before)) if before.signature.is_none() => {
                    before.text.push_str(&text);
                }
                _ if text.is_empty() => {}
                _ => self.items.push(Item::Reasoning(Reasoning { text, signature: None })),
            },
            Delta::Signature(signature) => match self.items.last_mut() {
                Some(Item::Reasoning(before)) if before.signature.is_none() => {
                    before.signature = Some(signature);
                }
                _ => {
                    let signed = Reasoning { text: String::new(), signature: Some(signature) };
                    self.items.push(Item::Reasoning(signed));
                }
            },
            Delta::Call { id, name, .. } => {
                self.items.push(Item::Call(ToolCall { id, name, arguments: String::new() }));
            }
            Delta::Arguments { index, text } => {
                let calls = self.items.iter_mut().filter_map(|item| match item {
                    Item::Call(call) => Some(call),
                    _ => None,
                });
                if let Some(call) = calls.into_iter().nth(index) {
                    call.arguments.push_str(&text);
                }
            }
            Delta::Extra { field, value } => {
                native::merge_member(&mut self.extra_fields, &field, &value);
            }
            Delta::Stopped(stop) => self.reported_stop = Some(stop),
            Delta::Usage(usage) => self.usage = Some(usage),
        }
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.items.iter().filter_map(|item| match item {
            Item::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the reason why the response ended. If the response contains tool calls, corrects the
    /// reported reason, because several endpoints report a normal end for such responses.
    pub fn stop_reason(&self) -> StopReason {
        let stop = self.reported_stop.clone().unwrap_or_default();
        if stop == StopReason::End && self.calls().next().is_some() {
            StopReason::Calls
        } else {
            stop
        }
    }

    /// Returns why this is not a valid response although it ended: it contains no model output, or
    /// it announces a call that is missing.
    pub fn defect(&self) -> Option<String> {
        let called = self.items.iter().any(|item| matches!(item, Item::Call(_)));
        if self.reported_stop == Some(StopReason::Calls) && !called {
            return Some("the response announces a tool call but has none".into());
        }
        let written = |item: &Item| match item {
            Item::Text(text) | Item::Refusal(text) => !text.is_empty(),
            Item::Call(_) => true,
            Item::Reasoning(_) => false,
        };
        if self.items.iter().any(written) {
            return None;
        }
        match self.reported_stop.as_ref()? {
            StopReason::Filter | StopReason::Refusal => return None,
            StopReason::Other(word) => {
                return Some(format!("empty response that ended with {word:?}"));
            }
            StopReason::End
            | StopReason::Calls
            | StopReason::StopSequence(_)
            | StopReason::Length
            | StopReason::ContextWindow => {}
        }
        let thought = self.items.iter().any(|item| match item {
            Item::Reasoning(thought) => !thought.text.is_empty() || thought.signature.is_some(),
            _ => false,
        });
        let counted = self.usage.is_some_and(|usage| usage.output > 0);
        (!thought && !counted).then(|| "empty response without output tokens".into())
    }

    /// Whether the response ended normally but has no output at all: no text, reasoning or call,
    /// and no content that only the endpoint's own format has, such as encrypted reasoning.
    pub fn is_hollow(&self) -> bool {
        let is_blank = |item: &Item| match item {
            Item::Text(text) | Item::Refusal(text) => text.is_empty(),
            Item::Reasoning(thought) => thought.text.is_empty() && thought.signature.is_none(),
            Item::Call(_) => false,
        };
        let mut parts = self.native_turn.iter().flat_map(|turn| &turn.items);
        self.reported_stop == Some(StopReason::End)
            && self.items.iter().all(is_blank)
            && native::are_blank(&self.extra_fields)
            && parts.all(native::is_blank)
    }
}

#[cfg(test)]
mod tests {
    use proctor_types::{Api, NativeTurn};
    use serde_json::{Value, json};

    use super::CollectedResponse;
    use crate::{native_turn, read_response};

    fn is_hollow(api: Api, body: &Value) -> bool {
        let deltas = read_response(api, body, 1).expect("a response");
        let mut whole = CollectedResponse::from_deltas(deltas);
        whole.native_turn = Some(NativeTurn { api, items: native_turn(api, body, &[]) });
        whole.is_hollow()
    }

    #[test]
    fn is_hollow_requires_a_turn_without_content() {
        let gemini = |content: Value| {
            let body = json!({"candidates": [{"content": content, "finishReason": "STOP"}]});
            is_hollow(Api::Gemini, &body)
        };
        assert!(gemini(json!({"role": "model"})));
        assert!(gemini(json!({"role": "model", "parts": [{"text": ""}]})));
        assert!(!gemini(json!({"parts": [{"text": "", "thoughtSignature": "S"}]})));
        assert!(!gemini(json!({"parts": [{"text": "Hm.", "thought": true}]})));
        let chat = |message: Value| {
            let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
            is_hollow(Api::Chat, &body)
        };
        assert!(chat(json!({"role": "assistant", "content": "", "reasoning_content": ""})));
        assert!(!chat(json!({"role": "assistant", "content": "Done."})));
        let encrypted = json!([{"type": "reasoning.encrypted", "data": "E"}]);
        assert!(!chat(json!({"content": "", "reasoning_details": encrypted})));
        let messages = |content: Value| {
            is_hollow(Api::Messages, &json!({"content": content, "stop_reason": "end_turn"}))
        };
        assert!(messages(json!([])) && messages(json!([{"type": "text", "text": ""}])));
        assert!(!messages(json!([{"type": "redacted_thinking", "data": "E"}])));
        assert!(!is_hollow(Api::Messages, &json!({"content": [], "stop_reason": "max_tokens"})));
    }
}
