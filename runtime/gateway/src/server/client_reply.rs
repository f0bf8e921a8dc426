//! The response that a client receives, as far as it has been built.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use serde_json::{Map, Value};

use crate::codec::{StreamWriter, neutral::Delta, sse};

#[derive(Default)]
pub(super) struct ClientReply {
    /// The fields of the client's request, without the conversation. A response repeats some of
    /// these fields.
    pub(super) request_fields: Map<String, Value>,
    /// Whether to hide usage that the gateway requested although the client did not.
    pub(super) hides_usage: bool,
    /// The endpoint's headers that are forwarded to the client.
    pub(super) headers: HeaderMap,
    /// Translates to the client's format. If `None`, bytes are passed on unchanged.
    pub(super) writer: Option<Box<dyn StreamWriter>>,
    /// A non-streamed response, and its deltas.
    pub(super) full_response: Option<(Bytes, Vec<Delta>)>,
    /// Bytes that are held back because they may be the end of the response.
    pub(super) held_back_bytes: BytesMut,
    /// All bytes that were or will be sent.
    pub(super) sent_bytes: BytesMut,
    /// The HTTP status, if the client receives an error response.
    pub(super) error_status: Option<u16>,
}

impl ClientReply {
    pub(super) fn set_request(&mut self, request_fields: Map<String, Value>, hides_usage: bool) {
        (self.request_fields, self.hides_usage) = (request_fields, hides_usage);
    }

    pub(super) fn set_error(&mut self, status: u16, text: String) {
        self.error_status = Some(status);
        self.sent_bytes = text.as_bytes().into();
    }

    /// Processes one event and returns what can be sent immediately.
    pub(super) fn forward_event(
        &mut self,
        event: &sse::Event,
        deltas: &[Delta],
        ends_response: bool,
    ) -> Bytes {
        let (mut has_content, mut is_end) = (false, ends_response);
        for delta in deltas {
            is_end |= matches!(delta, Delta::Stopped(_));
            has_content |= !matches!(delta, Delta::Stopped(_) | Delta::Usage(_));
        }
        let ready = match &mut self.writer {
            Some(writer) => {
                let mut out = String::new();
                deltas.iter().for_each(|delta| writer.write(delta, &mut out));
                out.into()
            }
            None => self.forward_unchanged(event, deltas, (has_content, is_end)),
        };
        self.sent_bytes.extend_from_slice(&ready);
        ready
    }

    /// Passes an event on in the endpoint's format. `has_content` says whether the event contains
    /// part of the response, and `is_end` whether nothing relevant follows the event.
    fn forward_unchanged(
        &mut self,
        event: &sse::Event,
        deltas: &[Delta],
        (has_content, is_end): (bool, bool),
    ) -> Bytes {
        // If more content arrives, the held-back bytes were not the end of the response: some
        // endpoints mark every chunk as the last one.
        let before = if has_content { self.held_back_bytes.split().freeze() } else { Bytes::new() };
        if self.hides_usage && !has_content && !is_end && is_usage_only(event, deltas) {
            return before;
        }
        if is_end || !self.held_back_bytes.is_empty() {
            self.held_back_bytes.extend_from_slice(&event.raw);
            return before;
        }
        if before.is_empty() {
            return event.raw.clone();
        }
        [before, event.raw.clone()].concat().into()
    }
}

/// Whether this is the chunk that `stream_options.include_usage` adds: usage without choices.
fn is_usage_only(event: &sse::Event, deltas: &[Delta]) -> bool {
    let usage = deltas.iter().any(|delta| matches!(delta, Delta::Usage(_)));
    let parsed: Value = serde_json::from_str(&event.data).unwrap_or_default();
    let none = parsed["choices"].as_array().is_some_and(Vec::is_empty);
    none && (usage || parsed["usage"].is_object())
}
