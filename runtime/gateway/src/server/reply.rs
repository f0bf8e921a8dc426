//! Sends the response to the client: unchanged, or translated to the client's format.
//!
//! The end of a response is held back until the response is charged and recorded. The client
//! therefore cannot send its next request before that.

use std::future::Future;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use proctor_types::{Event, Fault, RequestClass, Usage};

use super::{client_request::ClientRequest, stored_responses};
use crate::{
    TrialGateway,
    codec::{
        self,
        neutral::{CollectedResponse, Delta},
        sse,
    },
    outgoing_request::{Client, RequestEnd},
    request_path::SPLIT_KEY_NOTICE,
};

/// Recorded instead of an HTTP status if the client disconnected before a response.
const CLIENT_DISCONNECTED: u16 = 499;

impl Client for ClientRequest {
    fn is_disconnected(&self) -> bool {
        self.connection.is_disconnected()
    }

    fn has_started_response(&self) -> bool {
        self.connection.has_started_response()
    }

    fn wait_for<T: Send>(
        &mut self,
        future: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send {
        self.connection.wait_for(future)
    }

    fn on_head(&mut self, headers: &HeaderMap) {
        let route = self.server.trial.route();
        let translated = self.api != route.model.api;
        let reply = &mut self.reply;
        reply.headers = match translated {
            true => HeaderMap::new(),
            false => route.endpoint.redact_headers(self.server.policy.response_headers(headers)),
        };
        reply.writer = translated.then(|| codec::stream_writer(self.api, &reply.request_fields));
        (reply.held_back_bytes, reply.sent_bytes, reply.full_response) = Default::default();
    }

    async fn on_event(&mut self, event: &sse::Event, deltas: &[Delta], is_end: bool) {
        let ready = self.reply.forward_event(event, deltas, is_end);
        // `send` drops the chunk if the client has disconnected. The rest of the response is still
        // read, because its usage is billed.
        if !ready.is_empty() {
            self.connection.send_head(&self.reply.headers);
            self.connection.send(ready).await;
        }
    }

    fn on_response(&mut self, raw: &[u8], deltas: &[Delta]) {
        self.reply.full_response = Some((Bytes::copy_from_slice(raw), deltas.to_vec()));
    }

    fn on_settled(&mut self, collected_response: &CollectedResponse, usage: &Usage) {
        self.server.trial.native_turns().store(collected_response);
        let reply = &mut self.reply;
        let mut out = String::new();
        match reply.full_response.take() {
            // The endpoint sent a single document, but the client requested a stream.
            Some((_, deltas)) if self.is_streaming => {
                let mut writer = codec::stream_writer(self.api, &reply.request_fields);
                deltas.iter().for_each(|delta| writer.write(delta, &mut out));
                writer.end(usage, &mut out);
            }
            Some((raw, _)) if reply.writer.is_none() => {
                reply.held_back_bytes.extend_from_slice(&raw)
            }
            Some(_) => {
                out = codec::write_response(
                    self.api,
                    &reply.request_fields,
                    collected_response,
                    usage,
                )
                .to_string()
            }
            None => {
                if let Some(writer) = &mut reply.writer {
                    writer.end(usage, &mut out);
                }
            }
        }
        if !self.input_items.is_empty()
            && let Some(response) = stored_responses::extract_response(&out)
        {
            self.server.stored_responses.store(&self.input_items, &response);
        }
        reply.held_back_bytes.extend_from_slice(out.as_bytes());
        reply.sent_bytes.extend_from_slice(&reply.held_back_bytes);
    }

    async fn record(&mut self, trial: &TrialGateway, end: RequestEnd<'_>) -> Result<(), Fault> {
        self.record_end(trial, end).await
    }

    async fn finish(&mut self) {
        let held = self.reply.held_back_bytes.split().freeze();
        if self.is_streaming {
            self.connection.send_head(&self.reply.headers);
            self.connection.send(held).await;
            self.connection.close();
        } else {
            self.connection.send_response(StatusCode::OK, &self.reply.headers, held);
        }
    }
}

impl ClientRequest {
    /// Records the request, how it ended, and the bytes exchanged with the client.
    pub(super) async fn record_end(
        &mut self,
        trial: &TrialGateway,
        end: RequestEnd<'_>,
    ) -> Result<(), Fault> {
        let (route, sink) = (trial.route(), trial.sink());
        // Count the response before its end is sent, because the client may exit right after that.
        if let (Some(answer), true) = (end.response, end.is_delivered) {
            let main = self.class == RequestClass::Main;
            self.server.tracker.count_response(answer, main, self.conversation.is_some());
        }
        let status = match self.reply.error_status {
            Some(status) => status,
            // The stream's head was already sent when the stream was cut off.
            None if end.is_delivered
                || self.connection.has_started_response() && end.response.is_none() =>
            {
                200
            }
            None => CLIENT_DISCONNECTED,
        };
        let given = match end.has_split_key {
            true => Bytes::from_static(SPLIT_KEY_NOTICE),
            false => self.reply.sent_bytes.split().freeze(),
        };
        let response = match given.is_empty() {
            true => None,
            false => Some(sink.store_body(&given).await?),
        };
        let event = Event::RequestServed {
            number: self.number,
            client: self.api,
            upstream: route.model.api,
            path: self.path.clone(),
            class: self.class,
            conversation: self.conversation.as_ref().map(|one| one.id.clone()),
            parent: self.conversation.as_ref().and_then(|one| one.parent.clone()),
            streamed: self.is_streaming,
            status,
            error: end.error.map(|error| route.endpoint.redact_text(&error)),
            delivered: end.is_delivered,
            request: sink.store_body(&route.endpoint.redact(self.body.clone())).await?,
            response,
            losses: self.losses.clone().into_vec(),
            // The response of a step is recorded in its own event.
            answer: end.response.filter(|_| end.step.is_none()).cloned().map(Box::new),
            usage: end.usage,
            cost_usd: end.cost_usd,
            seconds: self.connection.elapsed_seconds(),
            first_byte_seconds: self.connection.first_byte_seconds,
        };
        sink.record_event(end.step.unwrap_or_else(|| trial.meter().steps()), event).await
    }
}
