//! One attempt: the exact bytes out, and what came back as it came.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use async_openai::{
    Client as OpenAi, error::OpenAIError, middleware::HttpRequestFactory,
    traits::RequestOptionsBuilder,
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use proctor_types::{Api, Usage, with_causes};
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, Sleep};

use crate::{
    codec::{self, neutral::Whole, sse},
    first_answer::Turn,
    judge::{Trouble, TroubleKind},
    retry::{self, seconds},
    sink::Waiting,
    trial::{Cut, Line, TrialGateway},
    way::{Client, Outgoing},
};

/// An answer that is longer than this is not read to its end, in bytes.
const BODY_LIMIT: usize = 64 << 20;

/// How long an endpoint may keep a connection open after the last event, before it is given up
/// instead of used again.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// How long an endpoint may be silent after it said why the answer ended. Some never say that the stream did, nor close
/// the connection.
const AFTER_THE_ANSWER: Duration = Duration::from_secs(20);

/// What one attempt brought.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// Absent: no response came.
    pub status: Option<u16>,
    /// The wait that the endpoint asks for.
    pub wish: Option<Duration>,
    /// The response as far as it came, without the key where it came whole.
    pub raw: BytesMut,
    /// What was read of an answer so far.
    pub whole: Whole,
    /// A body that is no answer: why, and what it was billed.
    pub unread: Option<(String, Option<Usage>)>,
    pub ended: Option<Ended>,
    /// The answer holds the key, which no single event held: its bytes are not for the record.
    pub spread: bool,
    pub took: Duration,
    pub first_byte: Option<Duration>,
}

/// What is heard of an answer while it comes.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// A byte of a success has come.
    pub byte: AtomicBool,
    /// Held while the model has not answered in this run: others wait for its first words.
    pub turn: Option<Turn>,
}

/// Why an attempt has no whole response.
#[derive(Debug)]
pub(crate) enum Ended {
    Broken(Broken),
    Cut(Cut),
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
    fn silent(time: Duration) -> Self {
        let what = format!("no byte for {:.0} s", time.as_secs_f64());
        Self { kind: TroubleKind::Silent, what }
    }

    fn of(error: reqwest::Error) -> Self {
        // A connection that is not even refused is a timeout.
        let unreachable = error.is_connect() || error.is_timeout();
        let kind = if unreachable { TroubleKind::Unreachable } else { TroubleKind::Endpoint };
        let what = with_causes(&error.without_url());
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

impl Came {
    /// Something of an answer came, so tokens were made.
    pub(crate) fn has_begun(&self) -> bool {
        !self.whole.items.is_empty() || self.whole.usage.is_some()
    }

    fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

impl TrialGateway {
    /// Sends the request once and reads what comes; a client of the same stream is given each event as
    /// it comes.
    pub(crate) async fn send<C: Client>(
        &self,
        request: &Outgoing,
        client: &mut C,
        heard: &Hearing,
    ) -> Came {
        let mut came = Came::default();
        let begun = Instant::now();
        if let Err(ended) = self.receive(request, client, heard, &mut came, begun).await {
            came.ended = Some(ended);
        }
        came.took = begun.elapsed();
        came.spread = self.line().endpoint.is_in(&came.whole.answer());
        came
    }

    async fn receive<C: Client>(
        &self,
        request: &Outgoing,
        client: &mut C,
        heard: &Hearing,
        came: &mut Came,
        begun: Instant,
    ) -> Result<(), Ended> {
        let line = self.line();
        let cut = self.cut(true);
        tokio::pin!(cut);
        let mut silence = Silence::new(self);
        let sent = client.wait_for(silence.over(None, async {
            tokio::select! {
                sent = open(line, request) => sent.map_err(Ended::Broken),
                cut = &mut cut => Err(Ended::Cut(cut)),
            }
        }));
        let mut response = sent.await?;
        came.status = Some(response.status().as_u16());
        came.wish = retry::wish(response.headers(), SystemTime::now());
        let kind = response.headers().get(header::CONTENT_TYPE);
        let json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let mut stream = (came.is_success() && request.stream && !json).then(|| Stream {
            decoder: sse::Decoder::default(),
            reader: codec::reader(line.model.api),
        });
        if came.is_success() {
            client.head(response.headers());
        }
        let idle = seconds(line.policy.idle_seconds);
        loop {
            let is_said = stream.is_some() && came.whole.stop.is_some();
            let limit = if is_said { idle.min(AFTER_THE_ANSWER) } else { idle };
            let next = client.wait_for(silence.over(Some(limit), async {
                tokio::select! {
                    chunk = response.chunk() => chunk.map_err(|error| Ended::Broken(Broken::of(error))),
                    cut = &mut cut => Err(Ended::Cut(cut)),
                }
            }));
            let chunk = match next.await {
                // The answer is here, and was paid for: how its stream ends takes nothing away.
                Err(Ended::Broken(_)) if is_said => None,
                next => next?,
            };
            let last = chunk.is_none();
            let mut speaks = false;
            if let Some(chunk) = chunk {
                if !chunk.is_empty() {
                    came.first_byte.get_or_insert_with(|| begun.elapsed());
                    speaks = !chunk.trim_ascii().is_empty();
                }
                came.raw.extend_from_slice(&chunk);
                if came.raw.len() > BODY_LIMIT {
                    let what = format!("the answer is longer than {BODY_LIMIT} bytes");
                    return Err(Ended::Broken(Broken::new(what)));
                }
                if let Some(stream) = &mut stream {
                    stream.decoder.push(&chunk);
                }
            }
            let ended = match &mut stream {
                Some(stream) => {
                    let ended = stream.read(line, last, client, &mut came.whole).await;
                    if let Some(turn) = &heard.turn {
                        // Of a model that has never answered, the comments that keep a connection open say nothing.
                        speaks = came.has_begun();
                        if speaks {
                            turn.answers();
                        }
                    }
                    ended
                }
                None => Ok(false),
            };
            heard.byte.fetch_or(speaks && came.is_success(), Ordering::Relaxed);
            if ended.map_err(Ended::Broken)? || last {
                break;
            }
        }
        match stream {
            Some(_) if came.whole.stop.is_none() => {
                let why = "the stream ended before the answer did";
                if came.has_begun() {
                    return Err(Ended::Broken(Broken::new(why)));
                }
                came.unread = Some((why.into(), None));
            }
            Some(_) => drain(response),
            None => {
                // From here on nothing sees the key: neither the client nor the code that acts on the answer.
                came.raw =
                    BytesMut::from(line.endpoint.redact(std::mem::take(&mut came.raw).freeze()));
                if came.is_success() {
                    read_whole(line, self.meter().steps() + 1, client, came);
                }
            }
        }
        Ok(())
    }
}

/// How long nothing has come. One timer for a whole answer: a piece that comes only moves the time that it counts
/// from, since a timer set anew for every piece costs more than the piece.
struct Silence<'a> {
    trial: &'a TrialGateway,
    timer: Pin<Box<Sleep>>,
}

impl<'a> Silence<'a> {
    fn new(trial: &'a TrialGateway) -> Self {
        let notice = seconds(trial.line().policy.notice_seconds);
        Self { trial, timer: Box::pin(tokio::time::sleep(notice)) }
    }

    /// Waits for what comes next, for `limit` at most, and tells the user at growing distances that nothing does.
    async fn over<T>(
        &mut self,
        limit: Option<Duration>,
        work: impl Future<Output = Result<T, Ended>>,
    ) -> Result<T, Ended> {
        let (begun, line) = (Instant::now(), self.trial.line());
        let mut so_far = seconds(line.policy.notice_seconds);
        tokio::pin!(work);
        loop {
            let next = due(begun, limit, so_far);
            // One that was set for an earlier piece comes too early, and is set anew then.
            if self.timer.is_elapsed() || self.timer.deadline() > next {
                self.timer.as_mut().reset(next);
            }
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = &mut self.timer => {}
            }
            let silent = begun.elapsed();
            if let Some(limit) = limit.filter(|limit| silent >= *limit) {
                return Err(Ended::Broken(Broken::silent(limit)));
            }
            if silent >= so_far {
                let model = line.model.name.clone();
                self.trial.sink().waiting(Waiting::Silent { model, so_far });
                so_far = so_far.saturating_mul(2);
            }
        }
    }
}

/// When the user is told next, or the limit is over.
fn due(begun: Instant, limit: Option<Duration>, so_far: Duration) -> Instant {
    // As good as never, where a configuration names a time that no clock reaches.
    const NEVER: Duration = Duration::from_secs(86_400 * 365 * 30);
    begun + limit.map_or(so_far, |limit| limit.min(so_far)).min(NEVER)
}

fn read_whole<C: Client>(line: &Line, step: u64, client: &mut C, came: &mut Came) {
    let api = line.model.api;
    let body = match serde_json::from_slice::<Value>(&came.raw) {
        Ok(body) => body,
        Err(error) => return came.unread = Some((format!("not JSON: {error}"), None)),
    };
    match codec::read_whole(api, &body, step) {
        Ok(deltas) => {
            client.whole(&came.raw, &deltas);
            came.whole = Whole::of(deltas);
        }
        Err(why) => came.unread = Some((why, codec::usage(api, &body))),
    }
}

struct Stream {
    decoder: sse::Decoder,
    reader: Box<dyn codec::Reader>,
}

impl Stream {
    /// Reads the events that have come. `true`: the last one is among them.
    async fn read<C: Client>(
        &mut self,
        line: &Line,
        last: bool,
        client: &mut C,
        whole: &mut Whole,
    ) -> Result<bool, Broken> {
        while let Some(event) = self.next(line, last) {
            let deltas = self.reader.read(&event).map_err(Broken::new)?;
            client.event(&event, &deltas, self.reader.ended()).await;
            deltas.into_iter().for_each(|delta| whole.push(delta));
        }
        Ok(self.reader.ended())
    }

    /// The next whole event, without the key; of the last bytes whatever they are.
    fn next(&mut self, line: &Line, last: bool) -> Option<sse::Event> {
        let whole = self.decoder.next();
        let event = if whole.is_none() && last { self.decoder.rest() } else { whole }?;
        Some(line.endpoint.redacted(&event.raw).map_or(event, sse::event))
    }
}

/// Read to its very end, a connection can be used again.
fn drain(mut response: Response) {
    let mut drained = Box::pin(async move { while let Ok(Some(_)) = response.chunk().await {} });
    // Most often the end came along with the last event.
    if drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(tokio::time::timeout(AFTER_THE_END, drained));
    }
}

/// The head of the response. OpenAI's formats go through async-openai, which makes the request; our
/// own service below it puts in the exact bytes, sends it once, and keeps the response for us. The
/// others are made here: async-openai does not speak them.
async fn open(line: &Line, request: &Outgoing) -> Result<Response, Broken> {
    let (api, name, policy) = (line.model.api, &line.model.name, &line.policy);
    // An answer that is not streamed says nothing before it is whole.
    let first = if request.stream { policy.idle_seconds } else { policy.attempt_seconds };
    let exact = Exact {
        http: line.http.clone(),
        headers: headers(line, request),
        body: request.body.clone(),
        first: seconds(first),
        response: Arc::default(),
    };
    let path = match api {
        Api::Chat => "/chat/completions",
        Api::Responses => "/responses",
        Api::Messages | Api::Gemini => {
            let url = line.endpoint.address(api, name, request.stream);
            let built = line.http.post(url).build().map_err(Broken::of)?;
            return exact.send(built).await;
        }
    };
    // `Client::build`, not `with_config`: the latter makes an HTTP client of its own.
    let client =
        OpenAi::build(line.http.clone(), line.endpoint.clone()).with_http_service(exact.clone());
    let made = client.chat().path(path).map_err(|error| Broken::new(error.to_string()))?;
    let answered: Result<(), OpenAIError> = made.create_byot(()).await;
    let kept = exact.response.lock().unwrap_or_else(PoisonError::into_inner).take();
    kept.unwrap_or_else(|| {
        let why =
            answered.err().map_or_else(|| "no response".to_owned(), |error| error.to_string());
        Err(Broken::new(why))
    })
}

/// A client's headers, where both sides speak one format, then our own.
fn headers(line: &Line, request: &Outgoing) -> HeaderMap {
    let mut headers = request.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    line.endpoint.authorize(line.model.api, &mut headers);
    headers
}

/// The service below async-openai. It replaces its executor, whose retries would be invisible. It
/// answers `null`, so that async-openai neither reads nor logs the response.
#[derive(Clone)]
struct Exact {
    http: reqwest::Client,
    headers: HeaderMap,
    body: Bytes,
    /// To the head of the response.
    first: Duration,
    response: Arc<Mutex<Option<Result<Response, Broken>>>>,
}

impl Exact {
    async fn send(&self, mut request: reqwest::Request) -> Result<Response, Broken> {
        request.headers_mut().extend(self.headers.clone());
        *request.body_mut() = Some(self.body.clone().into());
        within(self.first, self.http.execute(request)).await
    }
}

impl tower::Service<HttpRequestFactory> for Exact {
    type Response = Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let exact = self.clone();
        Box::pin(async move {
            let sent = exact.send(factory.build().await?).await;
            *exact.response.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
            Ok(Response::from(http::Response::new("null")))
        })
    }
}

/// What comes of the endpoint, or that it is silent.
async fn within<T>(
    time: Duration,
    work: impl Future<Output = Result<T, reqwest::Error>>,
) -> Result<T, Broken> {
    match tokio::time::timeout(time, work).await {
        Ok(came) => came.map_err(Broken::of),
        Err(_) => Err(Broken::silent(time)),
    }
}
