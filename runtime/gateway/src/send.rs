//! One attempt: the exact bytes out, and what came back as it came.

use std::{
    future::Future,
    io::Write as _,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use proctor_types::{Api, NativeTurn, Usage, with_causes};
use reqwest::Response;
use serde_json::{Map, Value};
use tokio::time::{Instant, Sleep};

use crate::{
    codec::{
        self, ReadError,
        neutral::{Delta, Whole},
        sse,
    },
    first_answer::Turn,
    judge::{Judgement, Trouble, TroubleKind},
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
    /// Of that, with comments alone, before the first event.
    pub queued: Duration,
    pub first_byte: Option<Duration>,
}

/// What is heard of an answer while it comes.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// A success says something: an event that is no comment, or a byte of a body that is no stream.
    pub event: AtomicBool,
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
    /// The endpoint's own words, where it says in the stream why it failed.
    pub said: Option<String>,
}

impl Broken {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { kind: TroubleKind::Endpoint, what: what.into(), said: None }
    }

    /// An error that the endpoint reports in an event.
    fn said(why: String, data: &str) -> Self {
        Self { said: Some(data.to_owned()), ..Self::new(why) }
    }

    /// No byte for so long.
    fn silent(time: Duration) -> Self {
        let what = format!("no event for {:.0} s", time.as_secs_f64());
        Self { kind: TroubleKind::Silent, what, said: None }
    }

    fn of(error: reqwest::Error) -> Self {
        // A connection that is not even refused is a timeout.
        let unreachable = error.is_connect() || error.is_timeout();
        let kind = if unreachable { TroubleKind::Unreachable } else { TroubleKind::Endpoint };
        let what = with_causes(&error.without_url());
        Self { kind, what, said: None }
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

    /// The time that the endpoint lost, by what became of the attempt.
    pub(crate) fn lost(&self, judged: &Judgement, heard: &Hearing) -> Duration {
        let is_lost = match judged {
            Judgement::Again(_) => true,
            Judgement::Cut(_) => !heard.event.load(Ordering::Relaxed),
            Judgement::Answered | Judgement::Rejected { .. } | Judgement::Unusable(_) => false,
        };
        if is_lost { self.took } else { self.queued }
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
        let mut inflate = Inflate::of(response.headers()).map_err(Ended::Broken)?;
        let mut body = if came.is_success() { Body::Undecided } else { Body::Whole };
        if came.is_success() {
            client.head(response.headers());
        }
        let idle = seconds(line.policy.idle_seconds);
        let mut progress = Instant::now();
        // Since when comments alone have come.
        let mut queued = None;
        loop {
            let is_said = matches!(body, Body::Stream(_)) && came.whole.stop.is_some();
            let limit = if is_said { idle.min(AFTER_THE_ANSWER) } else { idle };
            // Comments keep a connection open and say nothing: the time counts from the last event.
            let limit = limit.saturating_sub(progress.elapsed());
            let next = client.wait_for(silence.over(Some(limit), async {
                tokio::select! {
                    chunk = response.chunk() => chunk.map_err(|error| Ended::Broken(Broken::of(error))),
                    cut = &mut cut => Err(Ended::Cut(cut)),
                }
            }));
            let chunk = match next.await {
                // The answer is here, and was paid for: how its stream ends takes nothing away.
                Err(Ended::Broken(_)) if is_said => None,
                Err(Ended::Broken(broken)) if broken.kind == TroubleKind::Silent => {
                    return Err(Ended::Broken(Broken::silent(idle)));
                }
                next => next?,
            };
            let last = chunk.is_none();
            let mut speaks = false;
            let chunk = match inflate.next(chunk) {
                Ok(chunk) => chunk,
                Err(_) if is_said => None,
                Err(broken) => return Err(Ended::Broken(broken)),
            };
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
                match &mut body {
                    Body::Undecided => body = Body::of(&came.raw, line.model.api),
                    Body::Stream(stream) => stream.decoder.push(&chunk),
                    Body::Whole => {}
                }
            }
            let ended = match &mut body {
                Body::Stream(stream) => {
                    let ended = stream.read(line, last, request.stream, client, came).await;
                    if std::mem::take(&mut stream.progressed) {
                        progress = Instant::now();
                    }
                    let progressed = stream.spoke;
                    // The comments that keep a connection open say nothing.
                    match (progressed, heard.event.load(Ordering::Relaxed)) {
                        (false, false) => _ = queued.get_or_insert_with(Instant::now),
                        (true, false) => {
                            if let Some(from) = queued.take() {
                                came.queued = from.elapsed();
                                self.lost().queued(from);
                            }
                        }
                        (_, true) => {}
                    }
                    speaks = progressed;
                    if let Some(turn) = &heard.turn {
                        speaks = came.has_begun();
                        if speaks {
                            turn.answers();
                        }
                    }
                    ended
                }
                _ => {
                    if speaks {
                        progress = Instant::now();
                    }
                    Ok(false)
                }
            };
            heard.event.fetch_or(speaks && came.is_success(), Ordering::Relaxed);
            if ended.map_err(Ended::Broken)? || last {
                break;
            }
        }
        match body {
            Body::Stream(_) if came.whole.stop.is_none() => {
                let why = "the stream ended before the answer did";
                if came.has_begun() {
                    return Err(Ended::Broken(Broken::new(why)));
                }
                came.unread = Some((why.into(), None));
            }
            Body::Stream(mut stream) => {
                drain(response);
                let items = stream.turn();
                came.whole.native = Some(NativeTurn { api: line.model.api, items });
                if !request.stream {
                    // Nobody asked for events, so the client is given the response whole.
                    let usage = came.whole.usage.unwrap_or_default();
                    let whole =
                        codec::write_whole(line.model.api, &Map::new(), &came.whole, &usage);
                    client.whole(whole.to_string().as_bytes(), &stream.said);
                }
            }
            Body::Undecided | Body::Whole => {
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

/// The form of a body. Its first bytes decide and not its content type: some endpoints stream as JSON or plain text, and
/// some answer a request for a stream in one piece.
enum Body {
    /// Nothing but white space has come.
    Undecided,
    Stream(Box<Stream>),
    Whole,
}

impl Body {
    fn of(raw: &[u8], api: Api) -> Self {
        let text = raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(raw);
        match text.trim_ascii_start().first() {
            None => Self::Undecided,
            Some(b'{' | b'[' | b'<') => Self::Whole,
            // Cut within the mark.
            Some(0xEF) if text.len() < 3 => Self::Undecided,
            Some(_) if EVENT.iter().any(|field| starts(text.trim_ascii_start(), field)) => {
                let mut stream = Stream::of(api);
                stream.decoder.push(raw);
                Self::Stream(Box::new(stream))
            }
            Some(_) => Self::Whole,
        }
    }
}

/// How a stream of events begins.
const EVENT: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Whether the text begins like this, as far as it has come.
fn starts(text: &[u8], with: &[u8]) -> bool {
    let length = text.len().min(with.len());
    text[..length] == with[..length]
}

/// Undoes the compression that a proxy added although the request refuses it.
enum Inflate {
    Plain,
    Gzip(Box<flate2::write::MultiGzDecoder<Vec<u8>>>),
    Deflate(Box<flate2::write::ZlibDecoder<Vec<u8>>>),
}

impl Inflate {
    fn of(headers: &HeaderMap) -> Result<Self, Broken> {
        let coding = headers.get(header::CONTENT_ENCODING).and_then(|coding| coding.to_str().ok());
        match coding.map(|coding| coding.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "identity") => Ok(Self::Plain),
            Some("gzip" | "x-gzip") => {
                Ok(Self::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Vec::new()))))
            }
            Some("deflate") => {
                Ok(Self::Deflate(Box::new(flate2::write::ZlibDecoder::new(Vec::new()))))
            }
            Some(other) => Err(Broken::new(format!(
                "the response is compressed as {other:?}, which the request did not accept"
            ))),
        }
    }

    /// Returns the plain bytes of a chunk. `None`: the end.
    fn next(&mut self, chunk: Option<Bytes>) -> Result<Option<Bytes>, Broken> {
        let wrong = |error: std::io::Error| {
            Broken::new(format!("the compressed response is damaged: {error}"))
        };
        let (Some(bytes), decoder) = (chunk, self) else { return Ok(None) };
        let out = match decoder {
            Self::Plain => return Ok(Some(bytes)),
            Self::Gzip(decoder) => {
                decoder.write_all(&bytes).and_then(|()| decoder.flush()).map_err(wrong)?;
                decoder.get_mut()
            }
            Self::Deflate(decoder) => {
                decoder.write_all(&bytes).and_then(|()| decoder.flush()).map_err(wrong)?;
                decoder.get_mut()
            }
        };
        if out.len() > BODY_LIMIT {
            return Err(Broken::new(format!("the answer is longer than {BODY_LIMIT} bytes")));
        }
        Ok(Some(std::mem::take(out).into()))
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
    let raw = came.raw.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&came.raw);
    let mut body = match codec::tolerant::value(raw) {
        Ok(body) => body,
        Err(error) => return came.unread = Some((format!("not JSON: {error}"), None)),
    };
    codec::tolerant::mend_value(&mut body);
    // Gemini's stream without `alt=sse` is a list of its events.
    if let Value::Array(list) = &mut body {
        match list.len() {
            1 => body = list.remove(0),
            _ if api == Api::Gemini => return read_list(list, client, came),
            _ => {}
        }
    }
    match codec::read_whole(api, &body, step) {
        Ok(deltas) => {
            client.whole(&came.raw, &deltas);
            came.whole = Whole::of(deltas);
            let ids: Vec<_> = came.whole.calls().map(|call| call.id.clone()).collect();
            let items = codec::whole_turn(api, &body, &ids);
            came.whole.native = Some(NativeTurn { api, items });
        }
        Err(why) => came.unread = Some((why, codec::usage(api, &body))),
    }
}

/// Reads the events of a stream that came as one list.
fn read_list<C: Client>(list: &[Value], client: &mut C, came: &mut Came) {
    let mut reader = codec::reader(Api::Gemini);
    let mut deltas = Vec::new();
    for item in list {
        let event = sse::event(format!("data: {item}\n\n").into());
        match reader.read(&event) {
            Ok(some) => deltas.extend(some),
            Err(ReadError::Reported(why) | ReadError::Torn(why)) => {
                return came.unread = Some((why, codec::usage(Api::Gemini, item)));
            }
        }
    }
    client.whole(&came.raw, &deltas);
    came.whole = Whole::of(deltas);
    let native = NativeTurn { api: Api::Gemini, items: reader.turn() };
    match came.whole.stop {
        Some(_) => came.whole.native = Some(native),
        None => came.unread = Some(("no candidates".into(), came.whole.usage)),
    }
}

struct Stream {
    decoder: sse::Decoder,
    reader: Box<dyn codec::Reader>,
    halves: codec::tolerant::Halves,
    /// An event that is no comment has come.
    spoke: bool,
    /// Something of the response has come since this was asked last.
    progressed: bool,
    /// All that was said, for a client that did not ask for a stream.
    said: Vec<Delta>,
}

impl Stream {
    fn of(api: Api) -> Self {
        Self {
            decoder: sse::Decoder::default(),
            reader: codec::reader(api),
            halves: codec::tolerant::Halves::default(),
            spoke: false,
            progressed: false,
            said: Vec::new(),
        }
    }

    /// Reads the events that have come. `true`: the last one is among them.
    async fn read<C: Client>(
        &mut self,
        line: &Line,
        last: bool,
        streamed: bool,
        client: &mut C,
        came: &mut Came,
    ) -> Result<bool, Broken> {
        while let Some(event) = self.next(line, last) {
            self.spoke |= event.is_progress();
            let deltas = match self.reader.read(&event) {
                Ok(deltas) => self.halves.join(deltas, false),
                // After its end nothing takes a response away. The record has the bytes.
                Err(_) if came.whole.stop.is_some() => continue,
                Err(ReadError::Reported(why)) => return Err(Broken::said(why, &event.data)),
                Err(ReadError::Torn(why)) => {
                    let kind = TroubleKind::Damaged;
                    return Err(Broken { kind, ..Broken::said(why, &event.data) });
                }
            };
            // Empty chunks keep a connection open as comments do.
            self.progressed |= deltas.iter().any(Delta::is_content);
            let whole = &mut came.whole;
            if streamed {
                client.event(&event, &deltas, self.reader.ended()).await;
            } else {
                self.said.extend(deltas.iter().cloned());
            }
            deltas.into_iter().for_each(|delta| whole.push(delta));
        }
        if last {
            let rest = self.halves.join(Vec::new(), true);
            rest.into_iter().for_each(|delta| came.whole.push(delta));
        }
        Ok(self.reader.ended())
    }

    /// The assistant's turn, in the endpoint's format.
    fn turn(&mut self) -> Vec<Value> {
        let mut items = self.reader.turn();
        items.iter_mut().for_each(codec::tolerant::mend_value);
        items
    }

    /// The next whole event, without the key; of the last bytes whatever they are.
    fn next(&mut self, line: &Line, last: bool) -> Option<sse::Event> {
        let whole = self.decoder.next();
        let event = if whole.is_none() && last { self.decoder.rest() } else { whole }?;
        let event = line.endpoint.redacted(&event.raw).map_or(event, sse::event);
        Some(plain(event))
    }
}

/// An event whose data strict clients can parse: JavaScript's parser rejects Python's `NaN`.
fn plain(event: sse::Event) -> sse::Event {
    if !event.data.contains("NaN") && !event.data.contains("Infinity") {
        return event;
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok() {
        return event;
    }
    let data = codec::tolerant::repaired(&event.data);
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

/// Read to its very end, a connection can be used again.
fn drain(mut response: Response) {
    let mut drained = Box::pin(async move { while let Ok(Some(_)) = response.chunk().await {} });
    // Most often the end came along with the last event.
    if drained.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(tokio::time::timeout(AFTER_THE_END, drained));
    }
}

/// Sends the request and returns the head of the response.
///
/// The bytes are exact and the response is read by our own tolerant codecs, so a plain HTTP client sends them.
/// `docs/gateway.md` says why `async-openai` provides request types and no transport.
async fn open(line: &Line, request: &Outgoing) -> Result<Response, Broken> {
    let (api, name, policy) = (line.model.api, &line.model.name, &line.policy);
    // An answer that is not streamed says nothing before it is whole.
    let first = if request.stream { policy.idle_seconds } else { policy.attempt_seconds };
    let url = line.endpoint.address(api, name, request.stream);
    let mut built = line.http.post(url).build().map_err(Broken::of)?;
    built.headers_mut().extend(headers(line, request));
    *built.body_mut() = Some(request.body.clone().into());
    within(seconds(first), line.http.execute(built)).await
}

/// A client's headers, where both sides speak one format, then our own.
fn headers(line: &Line, request: &Outgoing) -> HeaderMap {
    let mut headers = request.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    line.endpoint.authorize(line.model.api, &mut headers);
    headers
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
