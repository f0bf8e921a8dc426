//! The body of a response: an event stream or a single document.

use bytes::Bytes;
use proctor_types::{Api, NativeTurn};
use serde_json::Value;

use super::attempt::{AttemptResult, BrokenResponse};
use crate::{
    attempt_failure::FailureKind,
    codec::{
        self, CorrectedContent, ReadError,
        neutral::{CollectedResponse, Delta},
        sse,
    },
    outgoing_request::Client,
    trial::ModelRoute,
};

/// The form of a body. The gateway detects the form from the first bytes rather than from the
/// content type, because some endpoints label streams as JSON or plain text, and some send a single
/// document in response to a streaming request.
pub(super) enum Body {
    /// Only whitespace has arrived.
    Undecided,
    Stream(Box<EventStream>),
    Complete,
}

impl Body {
    pub(super) fn detect(raw: &[u8], api: Api) -> Self {
        let text = raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(raw);
        match text.trim_ascii_start().first() {
            None => Self::Undecided,
            Some(b'{' | b'[' | b'<') => Self::Complete,
            // Only the first bytes of the byte order mark have arrived.
            Some(0xEF) if text.len() < 3 => Self::Undecided,
            Some(_)
                if sse::LINE_PREFIXES
                    .iter()
                    .any(|field| starts_with_partial(text.trim_ascii_start(), field)) =>
            {
                let mut stream = EventStream::new(api);
                stream.decoder.push(raw);
                Self::Stream(Box::new(stream))
            }
            Some(_) => Self::Complete,
        }
    }
}

/// Whether the text received so far could be the beginning of a string that starts with `prefix`.
fn starts_with_partial(text: &[u8], prefix: &[u8]) -> bool {
    let length = text.len().min(prefix.len());
    text[..length] == prefix[..length]
}

pub(super) fn read_complete_body<C: Client>(
    route: &ModelRoute,
    step: u64,
    client: &mut C,
    result: &mut AttemptResult,
) {
    let api = route.model.api;
    let raw = result.raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&result.raw);
    let mut body = match codec::lenient_json::parse(raw) {
        Ok(body) => body,
        Err(error) => return result.parse_failure = Some((format!("not JSON: {error}"), None)),
    };
    codec::lenient_json::replace_lone_in_value(&mut body);
    // Gemini's stream without `alt=sse` is a list of its events.
    if let Value::Array(list) = &mut body {
        match list.len() {
            1 => body = list.remove(0),
            _ if api == Api::Gemini => return read_event_list(list, client, result),
            _ => {}
        }
    }
    match codec::read_response(api, &body, step) {
        Ok(deltas) => {
            client.on_response(&result.raw, &deltas);
            result.response = CollectedResponse::from_deltas(deltas);
            let ids: Vec<_> = result.response.calls().map(|call| call.id.clone()).collect();
            let items = codec::native_turn(api, &body, &ids);
            result.response.native_turn = Some(NativeTurn { api, items });
        }
        Err(why) => result.parse_failure = Some((why, codec::usage(api, &body))),
    }
}

/// Reads the events of a stream that arrived as one list.
fn read_event_list<C: Client>(list: &[Value], client: &mut C, result: &mut AttemptResult) {
    let mut reader = codec::stream_reader(Api::Gemini);
    let mut deltas = Vec::new();
    for item in list {
        let event = sse::parse_event(format!("data: {item}\n\n").into());
        match reader.read(&event) {
            Ok(some) => deltas.extend(some),
            Err(ReadError::Reported(why) | ReadError::Corrupted(why)) => {
                return result.parse_failure = Some((why, codec::usage(Api::Gemini, item)));
            }
        }
    }
    client.on_response(&result.raw, &deltas);
    result.response = CollectedResponse::from_deltas(deltas);
    let native = NativeTurn { api: Api::Gemini, items: reader.take_turn() };
    match result.response.reported_stop {
        Some(_) => result.response.native_turn = Some(native),
        None => result.parse_failure = Some(("no candidates".into(), result.response.usage)),
    }
}

pub(super) struct EventStream {
    pub(super) decoder: sse::Decoder,
    reader: Box<dyn codec::StreamReader>,
    surrogate_joiner: codec::lenient_json::SurrogateJoiner,
    /// Whether an event other than a comment has arrived.
    pub(super) has_event: bool,
    /// Whether content has arrived since the last check.
    pub(super) has_progress: bool,
    /// All deltas received, for a client that did not request a stream.
    pub(super) all_deltas: Vec<Delta>,
}

impl EventStream {
    fn new(api: Api) -> Self {
        Self {
            decoder: sse::Decoder::default(),
            reader: codec::stream_reader(api),
            surrogate_joiner: codec::lenient_json::SurrogateJoiner::default(),
            has_event: false,
            has_progress: false,
            all_deltas: Vec::new(),
        }
    }

    /// Reads the events that have arrived. Returns whether the response has ended.
    pub(super) async fn read_events<C: Client>(
        &mut self,
        route: &ModelRoute,
        is_last: bool,
        is_streaming: bool,
        client: &mut C,
        result: &mut AttemptResult,
    ) -> Result<bool, BrokenResponse> {
        while let Some(event) = self.next_event(route, is_last) {
            self.has_event |= event.has_content();
            let deltas = match self.reader.read(&event) {
                Ok(deltas) => self.surrogate_joiner.join(deltas, false),
                // Invalid data after the end does not invalidate the response. The bytes are still
                // recorded.
                Err(_) if result.response.reported_stop.is_some() => continue,
                Err(ReadError::Reported(why)) => {
                    return Err(BrokenResponse::from_reported_error(why, &event.data));
                }
                Err(ReadError::Corrupted(why)) => {
                    let kind = FailureKind::Corrupted;
                    return Err(BrokenResponse {
                        kind,
                        ..BrokenResponse::from_reported_error(why, &event.data)
                    });
                }
            };
            // Like comments, empty chunks only keep a connection open.
            self.has_progress |= deltas.iter().any(Delta::is_content);
            let whole = &mut result.response;
            if is_streaming {
                client.on_event(&event, &deltas, self.reader.has_ended()).await;
            } else {
                self.all_deltas.extend(deltas.iter().cloned());
            }
            deltas.into_iter().for_each(|delta| whole.push(delta));
        }
        if is_last {
            let rest = self.surrogate_joiner.join(Vec::new(), true);
            rest.into_iter().for_each(|delta| result.response.push(delta));
        }
        Ok(self.reader.has_ended())
    }

    /// Replaces the content of a response whose last events contradict its fragments. Call this
    /// after the last event.
    pub(super) fn correct_content(&mut self, route: &ModelRoute, result: &mut AttemptResult) {
        let Some(CorrectedContent { deltas, is_damaged }) = self.reader.corrected_content() else {
            return;
        };
        // The received bytes still contain the fragments, but the content no longer does.
        result.has_split_key = route.endpoint.has_key(&result.response.to_model_response());
        let deltas = self.surrogate_joiner.join(deltas, true);
        result.response.items = CollectedResponse::from_deltas(deltas.clone()).items;
        result.has_damaged_fragments = is_damaged;
        let is_start = |delta: &Delta| matches!(delta, Delta::Started { .. });
        let is_end = |delta: &Delta| matches!(delta, Delta::Stopped(_) | Delta::Usage(_));
        let (start, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.all_deltas).into_iter().partition(is_start);
        let end = others.into_iter().filter(is_end);
        self.all_deltas = start.into_iter().chain(deltas).chain(end).collect();
    }

    /// Returns the assistant's turn in the endpoint's format.
    pub(super) fn take_turn(&mut self) -> Vec<Value> {
        let mut items = self.reader.take_turn();
        items.iter_mut().for_each(codec::lenient_json::replace_lone_in_value);
        items
    }

    /// Returns the next complete event, without the key. If `is_last`, also returns remaining bytes
    /// that do not form a complete event.
    fn next_event(&mut self, route: &ModelRoute, is_last: bool) -> Option<sse::Event> {
        let whole = self.decoder.next_event();
        let event = if whole.is_none() && is_last { self.decoder.take_rest() } else { whole }?;
        let event = route.endpoint.redact_if_present(&event.raw).map_or(event, sse::parse_event);
        Some(with_strict_json(event))
    }
}

/// Returns the event with data that strict clients can parse: JavaScript's parser rejects Python's
/// `NaN`.
fn with_strict_json(event: sse::Event) -> sse::Event {
    if !event.data.contains("NaN") && !event.data.contains("Infinity") {
        return event;
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok() {
        return event;
    }
    let data = codec::lenient_json::repair(&event.data);
    match serde_json::from_str::<serde::de::IgnoredAny>(&data) {
        Ok(_) => {
            let name = if event.name.is_empty() {
                String::new()
            } else {
                format!("event: {}\n", event.name)
            };
            let raw = Bytes::from(format!("{name}data: {data}\n\n"));
            sse::Event { raw, data, ..event }
        }
        Err(_) => event,
    }
}
