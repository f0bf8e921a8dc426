//! One go at the endpoint, with its exact bytes.

use std::{
    error::Error,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use async_openai::{Client, error::OpenAIError, middleware::HttpRequestFactory};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use proctor_types::{Api, Fault, Usage};
use serde_json::Value;

use crate::{
    Served,
    codec::{self, neutral::Whole},
    endpoint::Endpoint,
    judge::{Trouble, TroubleKind},
    retry::{self, seconds},
    trial::Line,
};

/// An answer that is longer than this is not read to its end, in bytes.
pub(crate) const BODY_LIMIT: usize = 64 << 20;

/// One go at the endpoint, for the record. It holds no header, so no key; should a body repeat the
/// key, `[key]` stands in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Within one ask, counted from 1.
    pub number: u32,
    /// Absent: no response came.
    pub status: Option<u16>,
    /// Absent: the go gave an answer.
    pub error: Option<String>,
    /// The wait before this go, in seconds.
    pub wait_seconds: f64,
    /// Then in the queue for the endpoint's rate limits and for limits that trials share, in seconds.
    pub queued_seconds: f64,
    /// From the request to the last byte of the response, in seconds.
    pub seconds: f64,
    pub request_body: Bytes,
    /// As far as it came.
    pub response_body: Bytes,
    /// What the endpoint says it billed, or the estimate for a delivered answer.
    pub usage: Option<Usage>,
    /// US dollars of `usage`, where the price is known.
    pub cost_usd: Option<f64>,
}

/// A wait that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// For the endpoint's rate limits or a limit that trials share, for so long by now. Told after a
    /// second, and then once a minute.
    Queued(Duration),
    /// An attempt failed: the next one is so far away. Told for a second and more.
    BackOff {
        /// The one that failed, counted from 1.
        attempt: u32,
        /// How many there are at most.
        attempts: u32,
        /// The status and the first words of the response, or what broke.
        why: String,
        pause: Duration,
    },
}

/// Where goes are recorded.
#[async_trait]
pub trait ExchangeSink: Send + Sync {
    /// Called once for each go, failed ones included, in their order and before the answer is
    /// delivered. No record, no result: an error ends the ask.
    async fn attempt(&self, attempt: Attempt) -> Result<(), Fault>;

    /// Told while a request waits, for whoever watches: a minute without a sign looks like a hang.
    /// Nothing depends on it; the record has each wait with the go that follows.
    fn waiting(&self, waiting: Waiting) {
        let _ = waiting;
    }

    /// Called once for each request of the HTTP server, after its goes and before the end of its
    /// answer is delivered. No record, no result, here too.
    async fn served(&self, served: Served) -> Result<(), Fault> {
        let _ = served;
        Ok(())
    }
}

/// What one go brought.
#[derive(Debug, Default)]
pub(crate) struct Exchanged {
    pub request: Bytes,
    pub response: BytesMut,
    pub status: Option<u16>,
    /// The wait that the endpoint asks for.
    pub wish: Option<Duration>,
    /// What broke below HTTP.
    pub broken: Option<Broken>,
    /// The parsed body of a 2xx response, or why it is not JSON.
    pub body: Option<Result<Value, String>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub kind: TroubleKind,
    pub what: String,
}

impl Broken {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { kind: TroubleKind::Endpoint, what: what.into() }
    }

    /// No byte for so long.
    pub(crate) fn silent(time: Duration) -> Self {
        let what = format!("no byte for {:.0} s", time.as_secs_f64());
        Self { kind: TroubleKind::Silent, what }
    }

    pub(crate) fn of(error: reqwest::Error) -> Self {
        let (connecting, timeout) = (error.is_connect(), error.is_timeout());
        let what = causes(&error.without_url());
        // A client that says "error sending request" first says nothing with it.
        let what = what.replace("error sending request: ", "");
        // A connection that is not even refused is a timeout too.
        let unreachable = connecting || timeout;
        let kind = if unreachable { TroubleKind::Unreachable } else { TroubleKind::Endpoint };
        Self { kind, what }
    }

    /// What broke after a head of this status.
    pub(crate) fn after(&self, status: Option<u16>, wish: Option<Duration>) -> Trouble {
        let why = match status {
            Some(status) => format!("status {status}, then {}", self.what),
            None => self.what.clone(),
        };
        Trouble::new(self.kind, why).wish(wish)
    }
}

/// A go under way. What it brought so far can be taken at any time, also after it was cut.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchange(Arc<Mutex<Exchanged>>);

impl Exchange {
    /// Sends `body`, which is in the endpoint's own format, once. Every outcome ends up in
    /// [`Exchange::take`]: an answer as a chat completion, whatever the format.
    pub(crate) async fn send(&self, line: &Line, body: &Value) {
        let Line { http, endpoint, model, .. } = line;
        if model.api != Api::Chat {
            return self.send_translated(line, body).await;
        }
        let limits = Limits::of(line);
        let wire =
            Wire { http: http.clone(), endpoint: endpoint.clone(), limits, seen: self.clone() };
        // `Client::build`, not `with_config`: the latter makes an HTTP client of its own.
        let client = Client::build(http.clone(), endpoint.clone()).with_http_service(wire);
        let answered: Result<Value, _> = client.chat().create_byot(body).await;
        let mut seen = self.lock();
        match answered {
            Ok(value) => seen.body = Some(Ok(value)),
            // Only the errors of a 2xx body come from here; async-openai loses the status of a
            // 4xx that is not JSON, so all others are judged by what the service below saw.
            Err(OpenAIError::JSONDeserialize(error, _)) => seen.body = Some(Err(error.to_string())),
            Err(error) if seen.status.is_none() && seen.broken.is_none() => {
                seen.broken = Some(Broken::new(error.to_string()));
            }
            Err(_) => {}
        }
    }

    /// For the formats that async-openai does not speak as bytes.
    async fn send_translated(&self, line: &Line, body: &Value) {
        let api = line.model.api;
        let mut headers = http::HeaderMap::new();
        line.endpoint.authorize(api, &mut headers);
        let url = line.endpoint.address(api, &line.model.name, false);
        let request = line.http.post(url).headers(headers);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let built = async { request.build().map_err(OpenAIError::Reqwest) };
        let sent = self.execute(&line.http, &line.endpoint, Limits::of(line), built).await;
        let mut seen = self.lock();
        if let Err(error) = &sent
            && seen.status.is_none()
            && seen.broken.is_none()
        {
            seen.broken = Some(Broken::new(error.to_string()));
        }
        if sent.is_ok() && seen.status.is_some_and(|status| (200..300).contains(&status)) {
            let parsed = serde_json::from_slice::<Value>(&seen.response);
            seen.body = Some(parsed.map_err(|error| error.to_string()).and_then(|body| {
                let deltas = codec::read_whole(api, &body)?;
                let whole = Whole::of(deltas);
                let usage = whole.usage.unwrap_or_default();
                Ok(codec::write_whole(Api::Chat, &serde_json::Map::new(), &whole, &usage))
            }));
        }
    }

    /// Whether a byte of a success came.
    pub(crate) fn is_heard(&self) -> bool {
        let seen = self.lock();
        seen.status.is_some_and(|status| (200..300).contains(&status)) && !seen.response.is_empty()
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&Exchanged) -> T) -> T {
        look(&self.lock())
    }

    pub(crate) fn take(&self) -> Exchanged {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Exchanged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a response may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Before its first byte.
    pub first: Duration,
    /// Then between two.
    pub idle: Duration,
}

impl Limits {
    /// Of an answer that is not streamed.
    fn of(line: &Line) -> Self {
        let policy = &line.policy;
        Self { first: seconds(policy.attempt_seconds), idle: seconds(policy.idle_seconds) }
    }
}

/// Replaces async-openai's executor, whose retries would be invisible.
#[derive(Clone)]
struct Wire {
    http: reqwest::Client,
    endpoint: Endpoint,
    limits: Limits,
    seen: Exchange,
}

impl tower::Service<HttpRequestFactory> for Wire {
    type Response = reqwest::Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<reqwest::Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let Self { http, endpoint, limits, seen } = self.clone();
        Box::pin(async move {
            let built = async { factory.build().await };
            seen.execute(&http, &endpoint, limits, built).await
        })
    }
}

impl Exchange {
    /// Sends a request and keeps what went and came, chunk by chunk. What it returns, and leaves for
    /// [`Exchange::take`], is without the key.
    async fn execute(
        &self,
        http: &reqwest::Client,
        endpoint: &Endpoint,
        limits: Limits,
        built: impl Future<Output = Result<reqwest::Request, OpenAIError>>,
    ) -> Result<reqwest::Response, OpenAIError> {
        let request = built.await?;
        let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
        self.lock().request = Bytes::copy_from_slice(body);
        let broke = |broken: Broken| {
            let text = broken.what.clone();
            self.lock().broken = Some(broken);
            OpenAIError::InvalidArgument(text)
        };
        let mut response = within(limits.first, http.execute(request)).await.map_err(broke)?;
        {
            let mut seen = self.lock();
            seen.status = Some(response.status().as_u16());
            seen.wish = retry::wish(response.headers(), SystemTime::now());
        }
        // Kept chunk by chunk, so that a body that breaks off is recorded as far as it came.
        while let Some(chunk) = within(limits.idle, response.chunk()).await.map_err(broke)? {
            let mut seen = self.lock();
            seen.response.extend_from_slice(&chunk);
            if seen.response.len() > BODY_LIMIT {
                let what = format!("the answer is longer than {BODY_LIMIT} bytes");
                seen.broken = Some(Broken::new(what.clone()));
                return Err(OpenAIError::InvalidArgument(what));
            }
        }
        // From here on nobody reads the key: neither whoever parses the answer, nor what acts on it.
        let body = endpoint.redact(std::mem::take(&mut self.lock().response).freeze());
        self.lock().response = BytesMut::from(body.clone());
        let mut whole = http::Response::new(body);
        *whole.status_mut() = response.status();
        *whole.headers_mut() = response.headers().clone();
        Ok(reqwest::Response::from(whole))
    }
}

/// What comes of the endpoint, or that it is silent.
pub(crate) async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, Broken> {
    match tokio::time::timeout(time, work).await {
        Ok(came) => came.map_err(Broken::of),
        Err(_) => Err(Broken::silent(time)),
    }
}

/// An error with its causes, which reqwest's own text leaves out.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
