//! A streamed answer, passed on as it comes.
//!
//! Each event of the endpoint is read once: for usage and for the end, and, where the client speaks
//! another format, to be written anew. What closes the answer is held back until the answer is
//! charged and recorded, so that the client's next request finds both done.

use std::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::{Bytes, BytesMut};
use proctor_types::Usage;

use super::{
    call::{Call, End, Outgoing},
    refusal::Refusal,
    send::{Failed, Sending, Sent, usage_or_estimate},
};
use crate::{
    Admission, AskError,
    codec::{
        self, Reader, Writer,
        neutral::{Delta, Whole},
        sse,
    },
    endpoint::Endpoint,
    exchange::{BODY_LIMIT, within},
    halts::Asker,
    retry::seconds,
    trial::Cut,
};

/// How long an endpoint may keep a connection open after the last event, before it is given up
/// instead of used again.
const AFTER_THE_END: std::time::Duration = std::time::Duration::from_secs(1);

/// The way from the endpoint's events to the client's bytes.
struct Path {
    decoder: sse::Decoder,
    reader: Box<dyn Reader>,
    /// Absent: bytes pass as they are.
    writer: Option<Box<dyn Writer>>,
    hides_usage: bool,
    endpoint: Endpoint,
    whole: Whole,
    /// What may be the end of the answer, not to be given before it is recorded.
    held: BytesMut,
    /// All that was or will be given.
    given: BytesMut,
}

impl Path {
    /// The next whole event, without the key; of the last bytes whatever they are.
    fn next(&mut self, last: bool) -> Option<sse::Event> {
        let whole = self.decoder.next();
        let event = if whole.is_none() && last { self.decoder.rest() } else { whole }?;
        let raw = self.endpoint.redact(event.raw.clone());
        Some(if raw == event.raw { event } else { sse::event(raw) })
    }

    /// Reads one event and returns what can be given at once.
    fn pass(&mut self, event: &sse::Event) -> Result<Bytes, String> {
        let deltas = self.reader.read(event)?;
        let mut ready = BytesMut::new();
        let (mut says, mut stops) = (false, self.reader.ended());
        for delta in &deltas {
            stops |= matches!(delta, Delta::Stopped(_));
            says |= !matches!(delta, Delta::Stopped(_) | Delta::Usage(_));
        }
        match &mut self.writer {
            Some(writer) => {
                let mut out = String::new();
                deltas.iter().for_each(|delta| writer.write(delta, &mut out));
                ready.extend_from_slice(out.as_bytes());
            }
            None => {
                // Some endpoints say with every piece that it is the last.
                if says {
                    ready.extend_from_slice(&self.held.split());
                }
                let hidden = self.hides_usage && !says && !stops && is_usage(event, &deltas);
                if !hidden {
                    let held = stops || !self.held.is_empty();
                    if held { &mut self.held } else { &mut ready }.extend_from_slice(&event.raw);
                }
            }
        }
        for delta in deltas {
            self.whole.push(delta);
        }
        self.given.extend_from_slice(&ready);
        Ok(ready.freeze())
    }

    /// The end of the answer.
    fn end(&mut self, usage: &Usage) -> Bytes {
        if let Some(writer) = &mut self.writer {
            let mut out = String::new();
            writer.end(usage, &mut out);
            self.held.extend_from_slice(out.as_bytes());
        }
        let held = self.held.split().freeze();
        self.given.extend_from_slice(&held);
        held
    }
}

/// The chunk that `stream_options.include_usage` adds: usage, and no choice.
fn is_usage(event: &sse::Event, deltas: &[Delta]) -> bool {
    let usage = deltas.iter().any(|delta| matches!(delta, Delta::Usage(_)));
    let parsed: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
    let none = parsed["choices"].as_array().is_some_and(Vec::is_empty);
    none && (usage || parsed["usage"].is_object())
}

pub(super) async fn relay(
    call: &mut Call,
    outgoing: &Outgoing,
    admission: Admission,
    mut go: Sending,
    (asker, heard): (&Asker<'_>, &AtomicBool),
    mut response: reqwest::Response,
    mut cut: Pin<&mut impl Future<Output = Cut>>,
) -> Result<Sent, AskError> {
    let line = call.shared.trial.line();
    let upstream = line.model.api;
    let mut path = Path {
        decoder: sse::Decoder::default(),
        reader: codec::reader(upstream),
        writer: (call.api != upstream).then(|| codec::writer(call.api, &outgoing.asked)),
        hides_usage: outgoing.hides_usage,
        endpoint: line.endpoint.clone(),
        whole: Whole::default(),
        held: BytesMut::new(),
        given: BytesMut::new(),
    };
    let headers = match &path.writer {
        None => line.endpoint.redact_headers(call.shared.policy.to_client(response.headers())),
        Some(_) => http::HeaderMap::new(),
    };
    let idle = seconds(line.policy.idle_seconds);
    let failed = loop {
        let next = call.client.wait_for(async {
            tokio::select! {
                chunk = within(idle, response.chunk()) => chunk.map_err(Failed::Broken),
                cut = &mut cut => Err(Failed::Cut(cut)),
            }
        });
        let chunk = match next.await {
            Ok(chunk) => chunk,
            Err(failed) => break Some(failed),
        };
        let last = chunk.is_none();
        if let Some(chunk) = chunk {
            heard.fetch_or(!chunk.is_empty(), Ordering::Relaxed);
            go.raw.extend_from_slice(&chunk);
            path.decoder.push(&chunk);
        }
        if go.raw.len() > BODY_LIMIT {
            break Some(Failed::broken("the answer is too long"));
        }
        let mut wrong = None;
        while let Some(event) = path.next(last) {
            match path.pass(&event) {
                // Dropped by `send` where the client has gone: the rest is read all the same,
                // because its usage is billed.
                Ok(ready) if !ready.is_empty() => {
                    call.client.open(&headers);
                    call.client.send(ready).await;
                }
                Ok(_) => {}
                Err(why) => {
                    wrong = Some(why);
                    break;
                }
            }
        }
        if let Some(why) = wrong {
            break Some(Failed::broken(why));
        }
        if path.reader.ended() || last {
            let whole = path.whole.stop.is_some();
            break (!whole).then(|| Failed::broken("the stream ended before the answer did"));
        }
    };
    if let Some(failed) = failed {
        return broken(call, outgoing, admission, go, path, failed).await;
    }
    call.shared.trial.responded(asker);
    let usage = usage_or_estimate(&path.whole, &outgoing.body).await;
    let end = path.end(&usage);
    call.attempt(outgoing, go, None, Some(usage)).await?;
    let delivered = !call.client.gone();
    let (answer, given) = (path.whole, path.given.freeze());
    call.settle(outgoing, admission, answer, usage, delivered, given).await?;
    call.client.open(&headers);
    call.client.send(end).await;
    call.client.close();
    // Read to its very end, a connection can be used again.
    let drained = async { while let Ok(Some(_)) = response.chunk().await {} };
    let _ = tokio::time::timeout(AFTER_THE_END, drained).await;
    Ok(Sent::Served)
}

/// A stream that broke off. Where the client has none of it yet, it may be asked for again.
async fn broken(
    call: &mut Call,
    outgoing: &Outgoing,
    admission: Admission,
    go: Sending,
    path: Path,
    failed: Failed,
) -> Result<Sent, AskError> {
    let nothing_came = path.whole.items.is_empty() && path.whole.usage.is_none();
    if nothing_came && !call.client.has_begun() {
        return call.failed(outgoing, go, failed, None).await;
    }
    // Tokens were made, so they are billed: the endpoint's last word on them, or our count.
    let usage = usage_or_estimate(&path.whole, &outgoing.body).await;
    let cost_usd = call.shared.trial.cost(&usage);
    admission.settle(&usage, cost_usd, false);
    if !call.client.has_begun() {
        return call.failed(outgoing, go, failed, None).await;
    }
    let why = format!("broken off: {}", failed.why());
    call.attempt(outgoing, go, Some(why.clone()), Some(usage)).await?;
    let refusal = match failed {
        Failed::Broken(_) => Refusal::bad(why.clone()),
        Failed::Cut(cut) => {
            let error = cut.error();
            call.shared.stop(&error);
            Refusal::of(&error)
        }
    };
    let end = End {
        status: 200,
        error: Some(why),
        response: path.given.freeze(),
        answer: None,
        delivered: false,
        usage: Some(usage),
        cost_usd,
    };
    call.record(outgoing, end).await?;
    call.client.refuse(&refusal).await;
    call.client.close();
    Ok(Sent::Served)
}
