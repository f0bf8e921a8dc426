//! The four wire formats. A script's conversation can be served in any of them.
//!
//! Requests are converted to chat completions, in which form they are matched against scripts and
//! checked for strictness. Responses are generated directly from the script.

use serde_json::{Value, json};

use crate::{chat, chat::Reply, gemini, messages, responses};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Chat,
    Responses,
    Messages,
    Gemini,
}

impl Format {
    /// Converts a request to chat completions. The error says why a strict endpoint would reject
    /// the request.
    pub(crate) fn to_chat_request(self, request: &Value) -> Result<Value, String> {
        let mut read = match self {
            Self::Chat => request.clone(),
            Self::Responses => responses::to_chat_request(request)?,
            Self::Messages => messages::to_chat_request(request)?,
            Self::Gemini => gemini::to_chat_request(request)?,
        };
        // The tools stay in their own format, because only their length matters.
        if let (Some(read), Some(tools)) = (read.as_object_mut(), request.get("tools")) {
            read.insert("tools".into(), tools.clone());
        }
        Ok(read)
    }

    pub(crate) fn response_body(self, reply: &Reply<'_>) -> Value {
        match self {
            Self::Chat => reply.response_body(),
            Self::Responses => responses::response_body(reply),
            Self::Messages => messages::response_body(reply),
            Self::Gemini => gemini::response_body(reply),
        }
    }

    /// Returns a response that is billed but contains no choice.
    pub(crate) fn empty_response(self, reply: &Reply<'_>) -> Value {
        if self == Self::Chat {
            return reply.body_without_choices();
        }
        let mut body = self.response_body(reply);
        for field in ["output", "content", "candidates"] {
            if let Some(object) = body.as_object_mut() {
                object.remove(field);
            }
        }
        body
    }

    /// Returns the events of a streamed response, as text.
    pub(crate) fn events(self, reply: &Reply<'_>, includes_usage: bool) -> Vec<String> {
        let named = |data: Value| {
            let name = data["type"].as_str().unwrap_or_default();
            format!("event: {name}\ndata: {data}\n\n")
        };
        let plain = |data: Value| format!("data: {data}\n\n");
        match self {
            Self::Chat => {
                let chunks = reply.chunks(includes_usage).into_iter().map(plain);
                chunks.chain(["data: [DONE]\n\n".to_owned()]).collect()
            }
            Self::Responses => responses::events(reply).into_iter().map(named).collect(),
            Self::Messages => messages::events(reply).into_iter().map(named).collect(),
            Self::Gemini => gemini::events(reply).into_iter().map(plain).collect(),
        }
    }

    /// Returns an error object in the format's own shape.
    pub(crate) fn error(self, message: &str, kind: &str) -> Value {
        match self {
            Self::Chat | Self::Responses => chat::error(message, kind),
            Self::Messages => {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Self::Gemini => json!({"error": {"code": 400, "message": message, "status": kind}}),
        }
    }
}
