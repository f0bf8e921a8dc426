//! One attempt: sent, and its answer passed on.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use proctor_types::{Answer, Usage};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    call::{Call, End, GONE, Outgoing},
    relay,
};
use crate::{
    Admission, AskError, Attempt,
    codec::{self, neutral::Whole},
    exchange::{BODY_LIMIT, Broken, within},
    halts::Asker,
    judge::{Judgement, Trouble, malformed, refused},
    retry::{self, seconds},
    tokens,
    trial::{Attempts, Cut},
};

pub(super) enum Sent {
    /// The client has its answer, or is told why not, and the record has it too.
    Served,
    /// Nothing was passed on.
    Again(Trouble),
}

/// What one attempt brought from the endpoint.
pub(super) struct Sending {
    number: u32,
    pause: Duration,
    queued: Duration,
    begun: Instant,
    pub status: Option<u16>,
    pub raw: BytesMut,
}

/// Why an answer is not whole.
pub(super) enum Failed {
    Broken(Broken),
    Cut(Cut),
}

impl Failed {
    pub(super) fn why(&self) -> String {
        match self {
            Self::Broken(broken) => broken.what.clone(),
            Self::Cut(cut) => cut.why(),
        }
    }

    pub(super) fn broken(what: impl Into<String>) -> Self {
        Self::Broken(Broken::new(what))
    }
}

impl Call {
    pub(super) async fn send(
        &mut self,
        outgoing: &Outgoing,
        admission: Admission,
        attempts: &Attempts,
    ) -> Result<Sent, AskError> {
        let trial = self.shared.trial.clone();
        let asker = trial.asker(outgoing.tools);
        let heard = AtomicBool::new(false);
        let flight = trial.lost().flight(|| heard.load(Ordering::Relaxed));
        let sent = self.attempt_in_flight(outgoing, admission, attempts, &asker, &heard).await;
        match &sent {
            Ok(Sent::Again(trouble)) => flight.failed(&trouble.brief),
            // A cut that found the endpoint silent was its trouble: the guard knows.
            Err(AskError::Budget(_) | AskError::Cancelled) => drop(flight),
            _ => flight.landed(),
        }
        sent
    }

    async fn attempt_in_flight(
        &mut self,
        outgoing: &Outgoing,
        admission: Admission,
        attempts: &Attempts,
        asker: &Asker<'_>,
        heard: &AtomicBool,
    ) -> Result<Sent, AskError> {
        let trial = self.shared.trial.clone();
        let policy = &trial.line().policy;
        let idle = seconds(policy.idle_seconds);
        let begun = Instant::now();
        let mut go = Sending {
            number: attempts.number(),
            pause: attempts.pause,
            queued: admission.queued(),
            begun,
            status: None,
            raw: BytesMut::new(),
        };
        let cut = trial.cut(true);
        tokio::pin!(cut);
        // An answer that is not streamed says nothing before it is whole.
        let first = if self.stream { idle } else { seconds(policy.attempt_seconds) };
        let sending = within(first, self.request(outgoing).send());
        let sent = self.client.wait_for(async {
            tokio::select! {
                sent = sending => sent.map_err(Failed::Broken),
                cut = &mut cut => Err(Failed::Cut(cut)),
            }
        });
        let mut response = match sent.await {
            Ok(response) => response,
            Err(failed) => return self.failed(outgoing, go, failed, None).await,
        };
        go.status = Some(response.status().as_u16());
        let wish = retry::wish(response.headers(), SystemTime::now());
        let kind = response.headers().get(header::CONTENT_TYPE);
        let json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let success = response.status().is_success();
        if success && self.stream && !json {
            let parts = (asker, heard);
            return relay::relay(self, outgoing, admission, go, parts, response, cut).await;
        }
        let whole = self.client.wait_for(async {
            loop {
                tokio::select! {
                    chunk = within(idle, response.chunk()) => match chunk {
                        Ok(None) => break Ok(()),
                        Ok(Some(chunk)) if go.raw.len() + chunk.len() <= BODY_LIMIT => {
                            heard.fetch_or(success && !chunk.is_empty(), Ordering::Relaxed);
                            go.raw.extend_from_slice(&chunk);
                        }
                        Ok(Some(_)) => break Err(Failed::broken("the answer is too long")),
                        Err(broken) => break Err(Failed::Broken(broken)),
                    },
                    cut = &mut cut => break Err(Failed::Cut(cut)),
                }
            }
        });
        if let Err(failed) = whole.await {
            return self.failed(outgoing, go, failed, wish).await;
        }
        // From here on nobody reads the key: neither the client, nor the record of its answer.
        go.raw = BytesMut::from(trial.line().endpoint.redact(go.raw.freeze()));
        if !success {
            let status = response.status().as_u16();
            let judged = refused(status, &go.raw, wish, (&trial.line().endpoint, asker));
            if judged.is_throttled(go.status) {
                admission.throttled(wish);
            }
            return self.refused(outgoing, go, asker, judged).await;
        }
        self.whole(outgoing, admission, go, asker, response.headers(), wish).await
    }

    fn request(&self, outgoing: &Outgoing) -> reqwest::RequestBuilder {
        let line = self.shared.trial.line();
        let (model, endpoint) = (&line.model, &line.endpoint);
        let url = endpoint.address(model.api, &model.name, self.stream);
        let mut headers = if self.api == model.api {
            self.shared.policy.to_endpoint(&self.headers)
        } else {
            HeaderMap::new()
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        endpoint.authorize(model.api, &mut headers);
        line.http.post(url).headers(headers).body(outgoing.body.clone())
    }

    /// An answer that came in one piece.
    async fn whole(
        &mut self,
        outgoing: &Outgoing,
        admission: Admission,
        go: Sending,
        asker: &Asker<'_>,
        headers: &HeaderMap,
        wish: Option<Duration>,
    ) -> Result<Sent, AskError> {
        let line = self.shared.trial.line();
        let upstream = line.model.api;
        let parsed: Result<Value, _> = serde_json::from_slice(&go.raw);
        let read = parsed.map_err(|error| (format!("not JSON: {error}"), None)).and_then(|body| {
            match codec::read_whole(upstream, &body) {
                Ok(deltas) => Ok(deltas),
                Err(why) => Err((why, codec::usage(upstream, &body))),
            }
        });
        let deltas = match read {
            Ok(deltas) => deltas,
            Err((why, billed)) => {
                let trouble = malformed(&why, &go.raw, go.status).wish(wish);
                if let Some(usage) = billed {
                    admission.settle(&usage, self.shared.trial.cost(&usage), false);
                }
                self.attempt(outgoing, go, Some(trouble.why.clone()), billed).await?;
                return Ok(Sent::Again(trouble));
            }
        };
        let answer = Whole::of(deltas.clone());
        let usage = usage_or_estimate(&answer, &outgoing.body).await;
        let raw = go.raw.clone().freeze();
        let body: Bytes = if self.stream {
            // The endpoint gave a stream's answer in one piece; the client wants events.
            let mut writer = codec::writer(self.api, &outgoing.asked);
            let mut out = String::new();
            deltas.iter().for_each(|delta| writer.write(delta, &mut out));
            writer.end(&usage, &mut out);
            out.into()
        } else if self.api == upstream {
            raw
        } else {
            codec::write_whole(self.api, &outgoing.asked, &answer, &usage).to_string().into()
        };
        let passed = line.endpoint.redact_headers(self.shared.policy.to_client(headers));
        self.shared.trial.responded(asker);
        self.attempt(outgoing, go, None, Some(usage)).await?;
        let delivered = !self.client.gone();
        self.settle(outgoing, admission, answer, usage, delivered, body.clone()).await?;
        if self.stream {
            self.client.open(&passed);
            self.client.send(body).await;
        } else {
            let passed = if self.api == upstream { passed } else { HeaderMap::new() };
            self.client.whole(StatusCode::OK, &passed, body);
        }
        Ok(Sent::Served)
    }

    /// Charges an answer and keeps it. What is left is to give its end to the client.
    pub(super) async fn settle(
        &mut self,
        outgoing: &Outgoing,
        admission: Admission,
        answer: Whole,
        usage: Usage,
        delivered: bool,
        response: Bytes,
    ) -> Result<(), AskError> {
        let cost_usd = self.shared.trial.cost(&usage);
        let answer = Answer { usage, cost_usd, ..answer.answer() };
        let answer = self.shared.trial.line().endpoint.redact_answer(answer);
        admission.settle(&usage, cost_usd, delivered);
        let error = (!delivered).then(|| "the client went away".to_owned());
        let end = End {
            status: if delivered { 200 } else { GONE },
            error,
            response,
            answer: Some(answer),
            delivered,
            usage: Some(usage),
            cost_usd,
        };
        self.record(outgoing, end).await
    }

    /// An attempt that brought nothing to pass on.
    pub(super) async fn failed(
        &mut self,
        outgoing: &Outgoing,
        go: Sending,
        failed: Failed,
        wish: Option<Duration>,
    ) -> Result<Sent, AskError> {
        let status = go.status;
        let why = match status {
            Some(status) => format!("status {status}, then {}", failed.why()),
            None => failed.why(),
        };
        self.attempt(outgoing, go, Some(why), None).await?;
        match failed {
            Failed::Cut(cut) => Err(cut.error()),
            Failed::Broken(broken) => Ok(Sent::Again(broken.after(status, wish))),
        }
    }

    async fn refused(
        &mut self,
        outgoing: &Outgoing,
        go: Sending,
        asker: &Asker<'_>,
        judged: Judgement,
    ) -> Result<Sent, AskError> {
        let trial = &self.shared.trial;
        let (why, result) = match judged {
            Judgement::Rejected { status, body } => {
                let why = format!("rejected with status {status}");
                (why, Err(trial.rejected(status, body, outgoing.tools)))
            }
            Judgement::Unusable(fault) => {
                trial.unusable(go.status, asker, &fault);
                (fault.what.clone(), Err(fault.into()))
            }
            Judgement::Again { trouble, .. } => (trouble.why.clone(), Ok(Sent::Again(trouble))),
            Judgement::Answered(_) => return Ok(Sent::Served),
        };
        self.attempt(outgoing, go, Some(why), None).await?;
        result
    }

    /// Keeps the attempt.
    pub(super) async fn attempt(
        &self,
        outgoing: &Outgoing,
        go: Sending,
        error: Option<String>,
        usage: Option<Usage>,
    ) -> Result<(), AskError> {
        let endpoint = &self.shared.trial.line().endpoint;
        let attempt = Attempt {
            number: go.number,
            status: go.status,
            error: error.map(|error| endpoint.redact_text(&error)),
            wait_seconds: go.pause.as_secs_f64(),
            queued_seconds: go.queued.as_secs_f64(),
            seconds: go.begun.elapsed().as_secs_f64(),
            request_body: endpoint.redact(outgoing.body.clone()),
            response_body: endpoint.redact(go.raw.freeze()),
            usage,
            cost_usd: usage.and_then(|usage| self.shared.trial.cost(&usage)),
        };
        self.shared.trial.sink().attempt(attempt).await.map_err(AskError::Fault)
    }
}

/// The endpoint's usage, or local counts of what was sent and of what came.
pub(super) async fn usage_or_estimate(answer: &Whole, request: &Bytes) -> Usage {
    if let Some(usage) = answer.usage {
        return usage;
    }
    let (request, answer) = (request.clone(), answer.answer());
    // Off the async threads: a long conversation takes many milliseconds.
    let counted = tokio::task::spawn_blocking(move || {
        // JSON's own marks are in the count, as are a chat template's in an endpoint's.
        let input = tokens::count(&String::from_utf8_lossy(&request));
        (input, tokens::count_answer(&answer))
    });
    let (input, output) = counted.await.unwrap_or_default();
    Usage { input, output, estimated: true, ..Usage::default() }
}
