//! Bodies of requests and responses in transit, and the proxy's own responses.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    ext::ReasonPhrase,
};
use proctor_types::DenyReason;

use crate::ledger::{ByteCounts, LedgerEntry};

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// Header with the reason for a refusal.
const REASON_HEADER: &str = "x-proctor-egress";

/// Returns a refusal. The reason is in the status line, in a header and in the body, because
/// clients differ in which of these they show.
pub(crate) fn denial_response(reason: DenyReason, request_line: &str) -> Response<AnyBody> {
    let text =
        format!("Blocked by the egress proxy ({reason}). {}\n{request_line}\n", reason.sentence());
    let mut answer = text_response(StatusCode::FORBIDDEN, text);
    let said = format!("Blocked by the egress proxy: {reason}");
    if let Ok(phrase) = ReasonPhrase::try_from(said.into_bytes()) {
        answer.extensions_mut().insert(phrase);
    }
    answer.headers_mut().insert(REASON_HEADER, HeaderValue::from_static(reason.name()));
    answer
}

/// Returns the response to an allowed request that failed.
pub(crate) fn failure_response(request_line: &str, reason: &str) -> Response<AnyBody> {
    text_response(
        StatusCode::BAD_GATEWAY,
        format!("The egress proxy allows this request, but it failed: {reason}\n{request_line}\n"),
    )
}

pub(crate) fn empty_response() -> Response<AnyBody> {
    Response::new(text_body(String::new()))
}

fn text_response(status: StatusCode, text: String) -> Response<AnyBody> {
    let mut answer = Response::new(text_body(text));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

fn text_body(text: String) -> AnyBody {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}

/// A body that counts its bytes. It keeps the request's ledger entry open until the body ends.
pub(crate) struct CountedBody {
    inner: Incoming,
    byte_counts: Arc<ByteCounts>,
    /// The request's ledger entry. `None` for request bodies.
    entry: Option<LedgerEntry>,
}

impl CountedBody {
    pub(crate) fn for_request(inner: Incoming, byte_counts: Arc<ByteCounts>) -> AnyBody {
        Self { inner, byte_counts, entry: None }.boxed_unsync()
    }

    pub(crate) fn for_response(inner: Incoming, entry: LedgerEntry) -> AnyBody {
        let counted = Arc::clone(entry.byte_counts());
        Self { inner, byte_counts: counted, entry: Some(entry) }.boxed_unsync()
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let way = if self.entry.is_some() {
            &self.byte_counts.downloaded_bytes
        } else {
            &self.byte_counts.uploaded_bytes
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            way.fetch_add(data.len() as u64, Ordering::Relaxed);
            if let Some(entry) = &mut self.entry {
                entry.push_body(data);
            }
        }
        if let Some(Err(error)) = &frame
            && let Some(entry) = &mut self.entry
        {
            entry.request.error = Some(format!("the response was interrupted: {error}"));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
