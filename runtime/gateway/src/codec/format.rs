//! One proxy to all formats.

use proctor_types::{Api, Usage};
use serde_json::{Map, Value};

use super::{
    Losses, chat, gemini, messages,
    neutral::{Delta, Request, Whole},
    responses, sse,
};

/// Listens to a stream of one format.
pub(crate) trait Reader: Send {
    /// What an event says. An error is what the endpoint says of its own failure within the stream,
    /// or why the event cannot be read.
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, String>;

    /// Whether the format's last event has come: nothing that matters follows.
    fn ended(&self) -> bool;
}

/// Writes a stream of one format, event by event.
pub(crate) trait Writer: Send {
    fn write(&mut self, delta: &Delta, out: &mut String);

    /// The events that close an answer. `usage` is the truth, or our own count.
    fn end(&mut self, usage: &Usage, out: &mut String);
}

/// Reads a request. An error is told to the client as its own mistake.
pub(crate) fn read_request(
    api: Api,
    body: &Map<String, Value>,
    losses: &mut Losses,
) -> Result<Request, String> {
    match api {
        Api::Chat => chat::read_request(body, losses),
        Api::Responses => responses::read_request(body, losses),
        Api::Messages => messages::read_request(body, losses),
        Api::Gemini => gemini::read_request(body, losses),
    }
}

/// The body of a request. An error names what the format cannot say and what must not be dropped.
pub(crate) fn request_for(
    api: Api,
    request: &Request,
    losses: &mut Losses,
) -> Result<Map<String, Value>, String> {
    match api {
        Api::Chat => chat::write_request(request, losses),
        Api::Responses => responses::write_request(request, losses),
        Api::Messages => messages::write_request(request, losses),
        Api::Gemini => gemini::write_request(request, losses),
    }
}

/// Reads an answer that was not streamed.
pub(crate) fn read_whole(api: Api, body: &Value) -> Result<Vec<Delta>, String> {
    match api {
        Api::Chat => chat::read_whole(body),
        Api::Responses => responses::read_whole(body),
        Api::Messages => messages::read_whole(body),
        Api::Gemini => gemini::read_whole(body),
    }
}

/// Writes an answer that was not streamed. `request` is what it answers.
pub(crate) fn write_whole(
    api: Api,
    request: &Map<String, Value>,
    whole: &Whole,
    usage: &Usage,
) -> Value {
    match api {
        Api::Chat => chat::write_whole(whole, usage),
        Api::Responses => responses::write_whole(request, whole, usage),
        Api::Messages => messages::write_whole(whole, usage),
        Api::Gemini => gemini::write_whole(whole, usage),
    }
}

pub(crate) fn reader(api: Api) -> Box<dyn Reader> {
    match api {
        Api::Chat => Box::new(chat::ChatReader::default()),
        Api::Responses => Box::new(responses::ResponsesReader::default()),
        Api::Messages => Box::new(messages::MessagesReader::default()),
        Api::Gemini => Box::new(gemini::GeminiReader::default()),
    }
}

/// `request` is what the answer answers.
pub(crate) fn writer(api: Api, request: &Map<String, Value>) -> Box<dyn Writer> {
    match api {
        Api::Chat => Box::new(chat::ChatWriter::new(request)),
        Api::Responses => Box::new(responses::ResponsesWriter::new(request)),
        Api::Messages => Box::new(messages::MessagesWriter::default()),
        Api::Gemini => Box::new(gemini::GeminiWriter::default()),
    }
}

/// The usage of a body that holds no answer: billed for nothing.
pub(crate) fn usage(api: Api, body: &Value) -> Option<Usage> {
    match api {
        Api::Chat => chat::usage(body),
        Api::Responses => responses::usage(body),
        Api::Messages => messages::usage(body),
        Api::Gemini => gemini::usage(body),
    }
}

/// The output limit that a request names, in tokens.
pub(crate) fn output_limit(api: Api, body: &Map<String, Value>) -> Option<u64> {
    let names: &[&str] = match api {
        Api::Chat => &["max_completion_tokens", "max_tokens"],
        Api::Responses => &["max_output_tokens"],
        Api::Messages => &["max_tokens"],
        Api::Gemini => return body.get("generationConfig")?["maxOutputTokens"].as_u64(),
    };
    names.iter().find_map(|name| body.get(*name)?.as_u64())
}
