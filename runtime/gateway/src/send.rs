//! Makes one attempt: sends the exact bytes of a request and returns the response as received.

mod attempt;
mod body;
mod inflate;
mod recorded;
mod silence;

use std::{
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    time::{Duration, SystemTime},
};

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, header};
use proctor_types::NativeTurn;
use reqwest::Response;
use serde_json::Map;
use tokio::time::Instant;

pub(crate) use self::attempt::{AttemptEnd, AttemptResult};
use self::{
    attempt::{BODY_LIMIT, BrokenResponse},
    body::Body,
    inflate::Decompressor,
    silence::SilenceTimer,
};
use crate::{
    attempt_failure::FailureKind,
    codec,
    first_response_gate::CallPermit,
    lost_time::MIN_WAIT,
    outgoing_request::{Client, OutgoingRequest},
    queue_time::QueueTimes,
    retry::{self, seconds},
    trial::{ModelRoute, TrialGateway},
};

/// How long an endpoint may keep a connection open after the last event. If it takes longer, the
/// connection is closed instead of reused.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long an endpoint may be silent after the finish reason. Some endpoints neither end the
/// stream nor close the connection.
const FINISH_TIMEOUT: Duration = Duration::from_secs(20);

/// The progress of a response in flight.
#[derive(Debug, Default)]
pub(crate) struct ResponseProgress {
    /// Whether the response has content: an event that is not a comment, or a byte of a body that
    /// is not a stream.
    pub has_response_content: AtomicBool,
    /// When the last chunk of the response arrived. Heartbeats and empty events don't count.
    last_chunk_at: Mutex<Option<Instant>>,
    /// Held until the model responds for the first time in this run. Until then, other requests
    /// wait.
    pub permit: Option<CallPermit>,
}

impl ResponseProgress {
    pub(crate) fn new(permit: Option<CallPermit>) -> Self {
        Self { permit, ..Self::default() }
    }

    /// Resets the progress for a new attempt.
    pub(crate) fn restart(&mut self) {
        self.has_response_content = AtomicBool::new(false);
        self.last_chunk_at = Mutex::default();
    }

    /// Returns when the last chunk of the response arrived, if one did.
    pub(crate) fn last_progress(&self) -> Option<Instant> {
        *self.last_chunk_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_progress(&self) -> Instant {
        let now = Instant::now();
        *self.last_chunk_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        now
    }
}

impl TrialGateway {
    /// Sends the request once and reads the response. A streaming client receives each event as it
    /// arrives.
    pub(crate) async fn send<C: Client>(
        &self,
        request: &OutgoingRequest,
        client: &mut C,
        response_progress: &ResponseProgress,
    ) -> AttemptResult {
        let mut result = AttemptResult::default();
        let begun = Instant::now();
        if let Err(ended) =
            self.receive(request, client, response_progress, &mut result, begun).await
        {
            result.end = Some(ended);
        }
        result.duration = begun.elapsed();
        if result.is_success() {
            result.read_names_and_stop();
            self.add_stated_queue_time(&mut result, begun);
        }
        result.has_split_key |= self.route().endpoint.has_key(&result.response.to_model_response());
        result
    }

    /// Counts the time that the endpoint states for its queue as lost, up to the first content of the
    /// response: the model worked from then on.
    fn add_stated_queue_time(&self, result: &mut AttemptResult, start: Instant) {
        let Ok(places) = QueueTimes::shipped() else { return };
        let stated = result.stated_queue_time.max(places.in_body(&result.raw));
        let time = stated.min(result.first_content_time.unwrap_or(result.duration));
        if time >= MIN_WAIT && time > result.queue_time {
            result.queue_time = time;
            self.lost_time().add_stated_queueing(start, time);
        }
    }

    async fn receive<C: Client>(
        &self,
        request: &OutgoingRequest,
        client: &mut C,
        response_progress: &ResponseProgress,
        result: &mut AttemptResult,
        start: Instant,
    ) -> Result<(), AttemptEnd> {
        let route = self.route();
        let cut = self.wait_for_cancel(true);
        tokio::pin!(cut);
        let mut silence = SilenceTimer::new(self);
        let sent = client.wait_for(silence.wait_for_chunk(None, async {
            tokio::select! {
                sent = open_response(route, request) => sent.map_err(AttemptEnd::Broken),
                cut = &mut cut => Err(AttemptEnd::Cancelled(cut)),
            }
        }));
        let mut response = sent.await?;
        result.status = Some(response.status().as_u16());
        result.retry_after = retry::retry_after(response.headers(), SystemTime::now());
        if let Ok(places) = QueueTimes::shipped() {
            result.stated_queue_time = places.in_headers(response.headers());
        }
        let mut inflate =
            Decompressor::from_headers(response.headers()).map_err(AttemptEnd::Broken)?;
        let mut body = if result.is_success() { Body::Undecided } else { Body::Complete };
        if result.is_success() {
            client.on_head(response.headers());
        }
        let idle = seconds(route.policy.idle_seconds);
        let mut progress = Instant::now();
        // When the first comment arrived before any event. Until the first event, the request is in
        // the endpoint's queue.
        let mut queued = None;
        loop {
            let is_finished =
                matches!(body, Body::Stream(_)) && result.response.reported_stop.is_some();
            let limit = if is_finished { idle.min(FINISH_TIMEOUT) } else { idle };
            // Measure the limit from the last event, because comments only keep the connection
            // open.
            let limit = limit.saturating_sub(progress.elapsed());
            let next = client.wait_for(silence.wait_for_chunk(Some(limit), async {
                tokio::select! {
                    chunk = response.chunk() => chunk.map_err(|error| AttemptEnd::Broken(BrokenResponse::from_reqwest(error))),
                    cut = &mut cut => Err(AttemptEnd::Cancelled(cut)),
                }
            }));
            let chunk = match next.await {
                // The response is complete and billed, no matter how its stream ends.
                Err(AttemptEnd::Broken(_)) if is_finished => None,
                Err(AttemptEnd::Broken(broken)) if broken.kind == FailureKind::Silent => {
                    return Err(AttemptEnd::Broken(BrokenResponse::from_silence(idle)));
                }
                next => next?,
            };
            let last = chunk.is_none();
            let mut has_content = false;
            let chunk = match inflate.decompress(chunk) {
                Ok(chunk) => chunk,
                Err(_) if is_finished => None,
                Err(broken) => return Err(AttemptEnd::Broken(broken)),
            };
            if let Some(chunk) = chunk {
                if !chunk.is_empty() {
                    result.first_byte_time.get_or_insert_with(|| start.elapsed());
                    has_content = !chunk.trim_ascii().is_empty();
                }
                result.raw.extend_from_slice(&chunk);
                if result.raw.len() > BODY_LIMIT {
                    let what = format!("the response is longer than {BODY_LIMIT} bytes");
                    return Err(AttemptEnd::Broken(BrokenResponse::new(what)));
                }
                match &mut body {
                    Body::Undecided => body = Body::detect(&result.raw, route.model.api),
                    Body::Stream(stream) => stream.decoder.push(&chunk),
                    Body::Complete => {}
                }
            }
            let ended = match &mut body {
                Body::Stream(stream) => {
                    let ended =
                        stream.read_events(route, last, request.is_streaming, client, result).await;
                    if std::mem::take(&mut stream.has_progress) {
                        progress = response_progress.note_progress();
                        result.first_content_time.get_or_insert_with(|| start.elapsed());
                    }
                    let progressed = stream.has_event;
                    // Comments that keep a connection open are not content.
                    match (
                        progressed,
                        response_progress.has_response_content.load(Ordering::Relaxed),
                    ) {
                        (false, false) => _ = queued.get_or_insert_with(Instant::now),
                        (true, false) => {
                            if let Some(from) = queued.take() {
                                result.queue_time = from.elapsed();
                                self.lost_time().add_queueing(from);
                            }
                        }
                        (_, true) => {}
                    }
                    has_content = progressed;
                    if let Some(turn) = &response_progress.permit {
                        has_content = result.has_output();
                        if has_content {
                            turn.note_response();
                        }
                    }
                    ended
                }
                _ => {
                    if has_content {
                        progress = response_progress.note_progress();
                        result.first_content_time.get_or_insert_with(|| start.elapsed());
                    }
                    Ok(false)
                }
            };
            response_progress
                .has_response_content
                .fetch_or(has_content && result.is_success(), Ordering::Relaxed);
            if ended.map_err(AttemptEnd::Broken)? || last {
                break;
            }
        }
        match body {
            Body::Stream(_) if result.response.reported_stop.is_none() => {
                let why = "the stream ended before the response was complete";
                if result.has_output() {
                    return Err(AttemptEnd::Broken(BrokenResponse::new(why)));
                }
                result.parse_failure = Some((why.into(), None));
            }
            Body::Stream(mut stream) => {
                drain(response);
                stream.correct_content(self.route(), result);
                let items = stream.take_turn();
                result.response.native_turn = Some(NativeTurn { api: route.model.api, items });
                if !request.is_streaming {
                    // The client did not request a stream and receives the complete response.
                    let usage = result.response.usage.unwrap_or_default();
                    let whole = codec::write_response(
                        route.model.api,
                        &Map::new(),
                        &result.response,
                        &usage,
                    );
                    client.on_response(whole.to_string().as_bytes(), &stream.all_deltas);
                }
            }
            Body::Undecided | Body::Complete => {
                // Remove the key here, so that neither the client nor the code that uses the
                // response sees it.
                result.raw =
                    BytesMut::from(route.endpoint.redact(std::mem::take(&mut result.raw).freeze()));
                if result.is_success() {
                    body::read_complete_body(route, self.meter().steps() + 1, client, result);
                }
            }
        }
        Ok(())
    }
}

/// Reads a response to its end, so that the connection can be reused.
fn drain(mut response: Response) {
    let mut drained = Box::pin(async move { while let Ok(Some(_)) = response.chunk().await {} });
    // Usually the end of the stream arrives together with the last event.
    if drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(tokio::time::timeout(DRAIN_TIMEOUT, drained));
    }
}

/// Sends the request and returns the head of the response.
///
/// The request is sent with a plain HTTP client, because its bytes must be exact and the gateway's
/// own tolerant codecs must read the response. `docs/design/gateway.md` explains why `async-openai`
/// provides request types but no transport.
async fn open_response(
    route: &ModelRoute,
    request: &OutgoingRequest,
) -> Result<Response, BrokenResponse> {
    let (api, name, policy) = (route.model.api, &route.model.name, &route.policy);
    // An endpoint sends a non-streamed response only when it is complete.
    let first = if request.is_streaming { policy.idle_seconds } else { policy.attempt_seconds };
    let url = route.endpoint.request_url(api, name, request.is_streaming);
    let mut built = route.http.post(url).build().map_err(BrokenResponse::from_reqwest)?;
    built.headers_mut().extend(headers(route, request));
    *built.body_mut() = Some(request.body.clone().into());
    with_timeout(seconds(first), route.http.execute(built)).await
}

/// Returns the request's headers. If both sides use the same format, they include the client's
/// headers, but our own headers take precedence.
fn headers(route: &ModelRoute, request: &OutgoingRequest) -> HeaderMap {
    let mut headers = request.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    route.endpoint.authorize(route.model.api, &mut headers);
    headers
}

/// Returns the result of `future`, or the failure of a silent endpoint if `future` takes longer
/// than `timeout`.
async fn with_timeout<T>(
    timeout: Duration,
    future: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, BrokenResponse> {
    match tokio::time::timeout(timeout, future).await {
        Ok(result) => result.map_err(BrokenResponse::from_reqwest),
        Err(_) => Err(BrokenResponse::from_silence(timeout)),
    }
}
