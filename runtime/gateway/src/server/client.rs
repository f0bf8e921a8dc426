//! The client's side of one request: sends one head and then chunks, until the client disconnects.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use proctor_types::Api;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::Instant,
};

use super::{body::Payload, error_response::ErrorResponse};

/// Maximum number of chunks that may wait for a slow client. Beyond that, the gateway also reads
/// more slowly from the endpoint.
const MAX_QUEUED_CHUNKS: usize = 32;

pub(super) struct Connection {
    api: Api,
    is_streaming: bool,
    head_sender: Option<oneshot::Sender<Response<Payload>>>,
    chunk_sender: Option<mpsc::Sender<Bytes>>,
    /// The latest time at which a stream's head is sent.
    deadline: Instant,
    start: Instant,
    /// Seconds from the request to the first piece sent.
    pub first_byte_seconds: Option<f64>,
}

impl Connection {
    pub(super) fn new(
        api: Api,
        is_streaming: bool,
        head_sender: oneshot::Sender<Response<Payload>>,
        head_timeout: Duration,
    ) -> Self {
        let start = Instant::now();
        let deadline = start + head_timeout;
        Self {
            api,
            is_streaming,
            head_sender: Some(head_sender),
            chunk_sender: None,
            deadline,
            start,
            first_byte_seconds: None,
        }
    }

    pub(super) fn elapsed_seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Whether the client has disconnected.
    pub(super) fn is_disconnected(&self) -> bool {
        match (&self.head_sender, &self.chunk_sender) {
            (Some(head), _) => head.is_closed(),
            (None, Some(pieces)) => pieces.is_closed(),
            (None, None) => true,
        }
    }

    /// Whether part of a response was sent, so that no other response can follow.
    pub(super) fn has_started_response(&self) -> bool {
        self.first_byte_seconds.is_some()
    }

    /// Waits for `future`. If `future` takes long, a streaming client receives the response's head in
    /// the meantime.
    pub(super) async fn wait_for<T>(&mut self, future: impl Future<Output = T>) -> T {
        if !self.is_streaming || self.head_sender.is_none() {
            return future.await;
        }
        tokio::pin!(future);
        tokio::select! {
            done = &mut future => return done,
            () = tokio::time::sleep_until(self.deadline) => {}
        }
        self.send_head(&HeaderMap::new());
        future.await
    }

    /// Sends the head of a stream if it has not been sent yet.
    pub(super) fn send_head(&mut self, headers: &HeaderMap) {
        let Some(head) = self.head_sender.take() else { return };
        let (pieces, body) = mpsc::channel(MAX_QUEUED_CHUNKS);
        let mut response = Response::new(Payload::Stream(body));
        response.headers_mut().extend(headers.clone());
        response.headers_mut().insert(header::CONTENT_TYPE, EVENT_STREAM);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if head.send(response).is_ok() {
            self.chunk_sender = Some(pieces);
        }
    }

    /// Sends a chunk of a stream. If the client has disconnected, the chunk is dropped.
    pub(super) async fn send(&mut self, chunk: Bytes) {
        let Some(pieces) = self.chunk_sender.as_ref().filter(|_| !chunk.is_empty()) else { return };
        // Usually the queue has room, so no wait is needed.
        let sent = match pieces.try_send(chunk) {
            Err(TrySendError::Full(piece)) => pieces.send(piece).await.is_ok(),
            tried => tried.is_ok(),
        };
        if sent && self.first_byte_seconds.is_none() {
            self.first_byte_seconds = Some(self.start.elapsed().as_secs_f64());
        }
    }

    /// Ends a stream.
    pub(super) fn close(&mut self) {
        self.chunk_sender = None;
    }

    /// Sends a complete response. Returns `false` if the client has disconnected.
    pub(super) fn send_response(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
    ) -> bool {
        let mut response = Response::new(Payload::from_bytes(body));
        *response.status_mut() = status;
        response.headers_mut().extend(headers.clone());
        response.headers_mut().entry(header::CONTENT_TYPE).or_insert(JSON);
        self.head_sender.take().is_some_and(|head| head.send(response).is_ok())
    }

    /// Sends an error response: as a status if the head has not been sent, otherwise as an event of
    /// the stream.
    pub(super) async fn send_error(&mut self, error: &ErrorResponse) {
        if self.head_sender.is_some() {
            let body = error.text(self.api);
            self.send_response(error.status, &HeaderMap::new(), body.into());
        } else {
            let mut event = String::new();
            error.event(self.api, &mut event);
            self.send(event.into()).await;
        }
    }
}

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
