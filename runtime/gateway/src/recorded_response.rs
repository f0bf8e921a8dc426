//! The responses that earlier tries of a trial received.
//!
//! A resumed try continues the conversation of the tries before it. If the gateway did not know the
//! responses of these tries, it would accept a response that the endpoint returns a second time.

use proctor_types::Api;

use crate::{
    TrialGateway,
    codec::{self, lenient_json, neutral::CollectedResponse, sse},
    responder::read_names,
};

/// A response from the record of an earlier try.
#[derive(Debug, Clone, Default)]
pub struct RecordedResponse {
    /// The response as the endpoint sent it.
    pub body: Vec<u8>,
    /// Length of the request in bytes. 0 if it is unknown.
    pub request_bytes: usize,
}

impl TrialGateway {
    /// Remembers a response that an earlier try received, in the order of the conversation.
    pub fn remember_response(&self, recorded: &RecordedResponse) {
        let model = &self.route().model;
        let Some(whole) = read_response(model.api, &recorded.body) else { return };
        let names = read_names(&recorded.body, &whole.model);
        // Pass a request size of 0, because every request of the resumed try comes after this
        // response, however short the request is.
        self.received_responses().add(names.id.as_deref(), &whole, 0);
        self.add_prompt_count(&whole, &names, recorded.request_bytes);
    }
}

/// Parses a recorded response, which is a stream or a single document.
fn read_response(api: Api, raw: &[u8]) -> Option<CollectedResponse> {
    let raw = raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(raw);
    if raw.trim_ascii_start().starts_with(b"{") {
        let mut body = lenient_json::parse(raw).ok()?;
        lenient_json::replace_lone_in_value(&mut body);
        return codec::read_response(api, &body, 0).ok().map(CollectedResponse::from_deltas);
    }
    let mut decoder = sse::Decoder::default();
    decoder.push(raw);
    let mut reader = codec::stream_reader(api);
    let mut halves = lenient_json::SurrogateJoiner::default();
    let mut whole = CollectedResponse::default();
    while let Some(event) = decoder.next_event().or_else(|| decoder.take_rest()) {
        // The earlier try accepted this response, so only data after its end can be invalid.
        let Ok(deltas) = reader.read(&event) else { break };
        halves.join(deltas, false).into_iter().for_each(|delta| whole.push(delta));
    }
    halves.join(Vec::new(), true).into_iter().for_each(|delta| whole.push(delta));
    Some(whole)
}

#[cfg(test)]
mod tests {
    use proctor_types::Api;

    use super::read_response;

    #[test]
    fn recorded_streams_and_documents_are_read() {
        let stream = "data: {\"id\": \"c1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"Do\"}}]}\n\n\
            data: {\"id\": \"c1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"ne.\"}, \
            \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
        let document = r#"{"id": "c1", "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Done."}}]}"#;
        let read = |raw: &str| read_response(Api::Chat, raw.as_bytes()).expect("a response").items;
        assert_eq!(read(stream), read(document));
        assert_eq!(read(stream).len(), 1);
        assert!(read_response(Api::Chat, b"{\"choices\": ").is_none());
    }
}
