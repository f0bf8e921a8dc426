//! Fuzzes input from clients and endpoints, which may be arbitrary bytes. The seeds are examples of
//! each format.

use bytes::Bytes;
use fuzz::{assert_error_text, fuzz};
use proctor_types::Api;
use serde_json::{Map, Value};

use super::{
    Losses, neutral::CollectedResponse, output_limit, read_request, read_response, sse,
    stream_reader, stream_writer, usage, write_request, write_response,
};

const ALL_APIS: [Api; 4] = [Api::Chat, Api::Responses, Api::Messages, Api::Gemini];

fn seed_dir(name: &str) -> String {
    format!("{}/tests/seeds/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Fuzzes requests. A request is either read or rejected with a one-line error. If it can be read,
/// each format either rejects it with a one-line error or writes it, and can read its own output.
fn fuzz_requests(api: Api, name: &str) {
    fuzz(seed_dir(name), |bytes| {
        let Ok(body) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return false };
        output_limit(api, &body);
        let request = match read_request(api, &body, &mut Losses::default()) {
            Ok(request) => request,
            Err(why) => {
                assert_error_text(&why, "");
                return false;
            }
        };
        for other in ALL_APIS {
            match write_request(other, &request, &mut Losses::default()) {
                Ok(written) => {
                    let again = read_request(other, &written, &mut Losses::default());
                    assert!(again.is_ok(), "{other:?} cannot read its own output: {again:?}");
                }
                Err(why) => assert_error_text(&why, ""),
            }
        }
        true
    });
}

/// Fuzzes responses. A response is either read or rejected. If it can be read, every format can
/// write it and read its own output.
fn fuzz_responses(api: Api, name: &str) {
    fuzz(seed_dir(name), |bytes| {
        let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return false };
        usage(api, &body);
        let Ok(deltas) = read_response(api, &body, 1) else { return false };
        let whole = CollectedResponse::from_deltas(deltas);
        let count = whole.usage.unwrap_or_default();
        for other in ALL_APIS {
            let written = write_response(other, &Map::new(), &whole, &count);
            let again = read_response(other, &written, 1);
            assert!(again.is_ok(), "{other:?} cannot read its own output: {again:?}");
        }
        whole.to_model_response();
        true
    });
}

/// Fuzzes streams. A stream is read incrementally and written in every format as it arrives.
fn fuzz_streams(api: Api, name: &str) {
    fuzz(seed_dir(name), |bytes| {
        let mut reader = stream_reader(api);
        let mut writers = ALL_APIS.map(|other| stream_writer(other, &Map::new()));
        let (mut decoder, mut whole) = (sse::Decoder::default(), CollectedResponse::default());
        let (mut events, mut raw) = (Vec::new(), 0);
        for chunk in bytes.chunks(100) {
            decoder.push(chunk);
            events.extend(std::iter::from_fn(|| decoder.next_event()));
        }
        events.extend(decoder.take_rest());
        let mut sound = true;
        for event in &events {
            raw += event.raw.len();
            let Ok(deltas) = reader.read(event) else {
                sound = false;
                continue;
            };
            for delta in deltas {
                writers.iter_mut().for_each(|writer| writer.write(&delta, &mut String::new()));
                whole.push(delta);
            }
        }
        assert_eq!(raw, bytes.len(), "an event lost bytes");
        for writer in &mut writers {
            let mut out = String::new();
            writer.end(&whole.usage.unwrap_or_default(), &mut out);
            sse::parse_event(Bytes::from(out));
        }
        whole.to_model_response();
        sound && (reader.has_ended() || whole.reported_stop.is_some())
    });
}

#[test]
fn chat_requests_are_translated_or_rejected() {
    fuzz_requests(Api::Chat, "chat");
}

#[test]
fn responses_requests_are_translated_or_rejected() {
    fuzz_requests(Api::Responses, "responses");
}

#[test]
fn messages_requests_are_translated_or_rejected() {
    fuzz_requests(Api::Messages, "messages");
}

#[test]
fn gemini_requests_are_translated_or_rejected() {
    fuzz_requests(Api::Gemini, "gemini");
}

#[test]
fn chat_responses_are_translated_or_rejected() {
    fuzz_responses(Api::Chat, "chat-answers");
}

#[test]
fn responses_responses_are_translated_or_rejected() {
    fuzz_responses(Api::Responses, "responses-answers");
}

#[test]
fn messages_responses_are_translated_or_rejected() {
    fuzz_responses(Api::Messages, "messages-answers");
}

#[test]
fn gemini_responses_are_translated_or_rejected() {
    fuzz_responses(Api::Gemini, "gemini-answers");
}

#[test]
fn chat_streams_are_translated_or_rejected() {
    fuzz_streams(Api::Chat, "chat-streams");
}

#[test]
fn responses_streams_are_translated_or_rejected() {
    fuzz_streams(Api::Responses, "responses-streams");
}

#[test]
fn messages_streams_are_translated_or_rejected() {
    fuzz_streams(Api::Messages, "messages-streams");
}

#[test]
fn gemini_streams_are_translated_or_rejected() {
    fuzz_streams(Api::Gemini, "gemini-streams");
}
