//! A common interface for all formats.

use proctor_types::{Api, Usage, one_line};
use serde_json::{Map, Value};

use super::{
    Losses, chat, gemini, messages,
    neutral::{CollectedResponse, Delta, Request},
    responses, sse,
};

/// The reason why an event could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The endpoint reported its own failure.
    Reported(String),
    /// The event is invalid, because the server corrupted the stream.
    Corrupted(String),
}

impl From<String> for ReadError {
    fn from(reason: String) -> Self {
        Self::Reported(reason)
    }
}

/// Reads a stream in one format.
pub trait StreamReader: Send {
    /// Returns the deltas of an event. An error means that the endpoint reported a failure, or that
    /// the event cannot be read.
    fn read(&mut self, event: &sse::Event) -> Result<Vec<Delta>, ReadError>;

    /// Whether the format's last event has arrived. Later events are irrelevant.
    fn has_ended(&self) -> bool;

    /// Returns the content of the response if the last events contradict the fragments. Call this
    /// after the last event, and before [`Self::take_turn`].
    fn corrected_content(&self) -> Option<CorrectedContent> {
        None
    }

    /// Takes the assistant's turn in the endpoint's format.
    fn take_turn(&mut self) -> Vec<Value>;
}

/// The content of a response whose last events contradict its fragments. The last events contain
/// whole items, so they are right.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrectedContent {
    pub deltas: Vec<Delta>,
    /// Whether fragments were lost or arrived in the wrong order. Otherwise, the whole items only
    /// lack something, for example markup that the server removed.
    pub is_damaged: bool,
}

/// Writes a stream in one format, event by event.
pub trait StreamWriter: Send + Sync {
    fn write(&mut self, delta: &Delta, out: &mut String);

    /// Writes the events that end a response. `usage` is the usage that the endpoint reported or,
    /// if it reported none, Proctor's own count.
    fn end(&mut self, usage: &Usage, out: &mut String);
}

/// Reads a request. Errors are reported to the client as client errors.
pub fn read_request(
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
    .map_err(|why| one_line(&why))
}

/// Writes the body of a request. An error names content that must not be dropped but that the
/// format cannot express.
pub fn write_request(
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
    .map_err(|why| one_line(&why))
}

/// Reads a non-streamed response. Calls without an id get one that is derived from `step`.
pub fn read_response(api: Api, body: &Value, step: u64) -> Result<Vec<Delta>, String> {
    match api {
        Api::Chat => chat::read_response(body, step),
        Api::Responses => responses::read_response(body),
        Api::Messages => messages::read_response(body),
        Api::Gemini => gemini::read_response(body),
    }
}

/// Returns the assistant's turn from a non-streamed response, in the endpoint's format. `ids` are
/// the ids of the response's calls.
pub fn native_turn(api: Api, body: &Value, ids: &[String]) -> Vec<Value> {
    match api {
        Api::Chat => chat::native_turn(body, ids),
        Api::Responses => responses::native_turn(body),
        Api::Messages => messages::native_turn(body),
        Api::Gemini => gemini::native_turn(body),
    }
}

/// Writes a non-streamed response to `request`.
pub fn write_response(
    api: Api,
    request: &Map<String, Value>,
    response: &CollectedResponse,
    usage: &Usage,
) -> Value {
    match api {
        Api::Chat => chat::write_response(response, usage),
        Api::Responses => responses::write_response(request, response, usage),
        Api::Messages => messages::write_response(response, usage),
        Api::Gemini => gemini::write_response(response, usage),
    }
}

pub fn stream_reader(api: Api) -> Box<dyn StreamReader> {
    match api {
        Api::Chat => Box::new(chat::ChatReader::default()),
        Api::Responses => Box::new(responses::ResponsesReader::default()),
        Api::Messages => Box::new(messages::MessagesReader::default()),
        Api::Gemini => Box::new(gemini::GeminiReader::default()),
    }
}

/// Returns a writer for the response to `request`.
pub fn stream_writer(api: Api, request: &Map<String, Value>) -> Box<dyn StreamWriter> {
    match api {
        Api::Chat => Box::new(chat::ChatWriter::new(request)),
        Api::Responses => Box::new(responses::ResponsesWriter::new(request)),
        Api::Messages => Box::new(messages::MessagesWriter::default()),
        Api::Gemini => Box::new(gemini::GeminiWriter::default()),
    }
}

/// Returns the usage that a body reports, even if the body has no response, because such a request
/// is billed anyway.
pub fn usage(api: Api, body: &Value) -> Option<Usage> {
    match api {
        Api::Chat => chat::usage(body),
        Api::Responses => responses::usage(body),
        Api::Messages => messages::usage(body),
        Api::Gemini => gemini::usage(body),
    }
}

/// Returns a request's output limit in tokens.
pub fn output_limit(api: Api, body: &Map<String, Value>) -> Option<u64> {
    let names: &[&str] = match api {
        Api::Chat => &["max_completion_tokens", "max_tokens"],
        Api::Responses => &["max_output_tokens"],
        Api::Messages => &["max_tokens"],
        Api::Gemini => return body.get("generationConfig")?["maxOutputTokens"].as_u64(),
    };
    names.iter().find_map(|name| body.get(*name)?.as_u64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proctor_types::{Api, TokenClasses, Usage};
    use serde_json::{Map, Value, json};

    use super::{stream_reader, stream_writer, usage, write_response};
    use crate::{
        neutral::{CollectedResponse, Delta, StopReason},
        sse,
    };

    /// Returns fresh input, cache reads, cache writes, visible output and reasoning, followed by
    /// the totals.
    fn usage_counts(api: Api, body: Value) -> ([Option<u64>; 5], [u64; 4]) {
        let usage = usage(api, &body).expect("a usage");
        let TokenClasses {
            fresh_input, cache_read, cache_write, output_visible, reasoning, ..
        } = usage.classes;
        (
            [fresh_input, cache_read, cache_write, output_visible, reasoning],
            [usage.input, usage.output, usage.cached, usage.reasoning],
        )
    }

    #[test]
    fn usage_reads_five_token_classes_from_chat() {
        let usage = json!({"usage": {"prompt_tokens": 100, "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": 20}}});
        let classes = [Some(10), Some(60), Some(30), Some(30), Some(20)];
        assert_eq!(usage_counts(Api::Chat, usage), (classes, [100, 50, 60, 20]));
        // Other vendors' field names, and an endpoint that reports only totals.
        let usage = json!({"usage": {"prompt_tokens": 100, "completion_tokens": 50,
            "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}});
        let classes = [Some(10), Some(60), Some(30), Some(50), None];
        assert_eq!(usage_counts(Api::Chat, usage), (classes, [100, 50, 60, 0]));
        let usage = json!({"usage": {"prompt_tokens": 100, "completion_tokens": 50}});
        let classes = [Some(100), None, None, Some(50), None];
        assert_eq!(usage_counts(Api::Chat, usage), (classes, [100, 50, 0, 0]));
        // The total shows that the completion does not include reasoning.
        let usage = json!({"usage": {"prompt_tokens": 100, "completion_tokens": 50,
            "total_tokens": 170, "completion_tokens_details": {"reasoning_tokens": 20}}});
        let classes = [Some(100), None, None, Some(50), Some(20)];
        assert_eq!(usage_counts(Api::Chat, usage), (classes, [100, 70, 0, 20]));
    }

    #[test]
    fn usage_reads_token_classes_from_responses() {
        let mut usage = json!({"usage": {"input_tokens": 100, "output_tokens": 50,
            "input_tokens_details": {"cached_tokens": 60},
            "output_tokens_details": {"reasoning_tokens": 20}}});
        let classes = [Some(40), Some(60), None, Some(30), Some(20)];
        assert_eq!(usage_counts(Api::Responses, usage.clone()), (classes, [100, 50, 60, 20]));
        usage["usage"]["input_tokens_details"]["cache_write_tokens"] = 30.into();
        assert_eq!(usage_counts(Api::Responses, usage).0[2], Some(30));
    }

    #[test]
    fn usage_adds_cache_tokens_from_messages() {
        let usage = json!({"usage": {"input_tokens": 10, "output_tokens": 50,
            "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}});
        let classes = [Some(10), Some(60), Some(30), Some(50), None];
        assert_eq!(usage_counts(Api::Messages, usage), (classes, [100, 50, 60, 0]));
    }

    #[test]
    fn usage_separates_one_hour_cache_writes() {
        let creation = json!({"ephemeral_1h_input_tokens": 25, "ephemeral_5m_input_tokens": 5});
        let messages = json!({"usage": {"input_tokens": 10, "output_tokens": 50,
            "cache_creation_input_tokens": 30, "cache_creation": creation.clone()}});
        // The total may be absent.
        let parts = json!({"usage": {"input_tokens": 10, "output_tokens": 50,
            "cache_creation": creation.clone()}});
        // The format that proxies in front of Anthropic use.
        let chat = json!({"usage": {"prompt_tokens": 40, "completion_tokens": 50,
            "cache_creation_input_tokens": 30, "cache_creation": creation.clone()}});
        let lite = json!({"usage": {"prompt_tokens": 40, "completion_tokens": 50,
            "prompt_tokens_details": {"cache_creation_tokens": 30,
                "cache_creation_token_details": creation}}});
        for (api, body) in [
            (Api::Messages, messages),
            (Api::Messages, parts),
            (Api::Chat, chat),
            (Api::Chat, lite),
        ] {
            let usage = usage(api, &body).expect("a usage");
            let written = (usage.classes.cache_write, usage.classes.cache_write_1h);
            assert_eq!((usage.input, written), (40, (Some(30), Some(25))), "{body}");
        }
    }

    #[test]
    fn stream_separates_one_hour_cache_writes() {
        let usage = json!({"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_1h_input_tokens": 25, "ephemeral_5m_input_tokens": 5}});
        let start = json!({"type": "message_start", "message": {"model": "m", "usage": usage}});
        let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 7}});
        let (mut reader, mut whole) = (stream_reader(Api::Messages), CollectedResponse::default());
        for data in [start, end] {
            let event = sse::parse_event(format!("data: {data}\n\n").into());
            let deltas = reader.read(&event).expect("an event");
            deltas.into_iter().for_each(|delta| whole.push(delta));
        }
        let usage = whole.usage.expect("a usage");
        let written = (usage.classes.cache_write, usage.classes.cache_write_1h);
        assert_eq!((usage.input, usage.output, written), (40, 7, (Some(30), Some(25))));
    }

    #[test]
    fn usage_adds_thoughts_from_gemini() {
        let usage = json!({"usageMetadata": {"promptTokenCount": 90, "toolUsePromptTokenCount": 10,
            "cachedContentTokenCount": 60, "candidatesTokenCount": 30, "thoughtsTokenCount": 20}});
        let classes = [Some(40), Some(60), None, Some(30), Some(20)];
        assert_eq!(usage_counts(Api::Gemini, usage), (classes, [100, 50, 60, 20]));
    }

    /// Found by fuzzing: the totals overflowed.
    #[test]
    fn usage_ignores_impossible_counts() {
        let most = u64::MAX;
        let none = [
            (Api::Chat, json!({"usage": {"prompt_tokens": most, "completion_tokens": 1}})),
            (Api::Responses, json!({"usage": {"input_tokens": 1, "output_tokens": most}})),
            (Api::Messages, json!({"usage": {"input_tokens": most, "output_tokens": 1}})),
            (Api::Gemini, json!({"usageMetadata": {"promptTokenCount": most}})),
        ];
        for (api, body) in none {
            assert_eq!(usage(api, &body), None, "{api:?}");
        }
        let part = json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1,
            "toolUsePromptTokenCount": most, "thoughtsTokenCount": most}});
        assert_eq!(usage_counts(Api::Gemini, part).1, [9, 1, 0, 0]);
    }

    /// Returns the first id of a complete response, or of the first stream event that has one.
    fn extract_id(text: &str, key: &str) -> String {
        let rest = text.split_once(&format!("\"{key}\":\"")).unwrap_or_default().1;
        rest.split_once('"').unwrap_or_default().0.to_owned()
    }

    #[test]
    fn translated_responses_have_unique_ids() {
        let request: Map<String, Value> = Map::new();
        for api in [Api::Chat, Api::Responses, Api::Messages, Api::Gemini] {
            let key = if api == Api::Gemini { "responseId" } else { "id" };
            let deltas = [
                Delta::Started { model: "m".into() },
                Delta::Text("a".into()),
                Delta::Stopped(StopReason::End),
            ];
            let mut ids = BTreeSet::new();
            for _ in 0..2 {
                let whole = CollectedResponse::from_deltas(deltas.to_vec());
                let body = write_response(api, &request, &whole, &Usage::default());
                ids.insert(extract_id(&body.to_string(), key));
                let (mut stream, mut text) = (stream_writer(api, &request), String::new());
                deltas.iter().for_each(|delta| stream.write(delta, &mut text));
                stream.end(&Usage::default(), &mut text);
                ids.insert(extract_id(&text, key));
            }
            assert!(ids.len() == 4 && !ids.contains(""), "{api:?}: {ids:?}");
        }
    }
}
