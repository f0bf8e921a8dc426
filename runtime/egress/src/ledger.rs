//! The ledger records every request, together with the step that made it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use async_trait::async_trait;
use proctor_types::{Fault, UrlRequest};
use tokio::sync::mpsc::UnboundedSender;

/// Records the requests that a trial makes.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Returns the current step. The proxy calls this once per request, when the request arrives.
    async fn current_step(&self) -> u64;

    /// Returns how many bytes of each response [`Ledger::receive_body`] receives, and how many
    /// bytes may be buffered for all concurrent responses together.
    fn body_limits(&self) -> BodyLimits {
        BodyLimits::default()
    }

    /// Receives the body of the response to an allowed request, up to the limits in `body_limits`.
    /// The implementation may add to the request's entry, which is recorded next. As with `record`,
    /// an `Err` ends the try.
    async fn receive_body(&self, _request: &mut UrlRequest, _body: Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    /// Records one request under the step in which it arrived. An `Err` ends the try, because its
    /// result is invalid if the ledger is incomplete.
    async fn record(&self, step: u64, request: UrlRequest) -> Result<(), Fault>;
}

/// Number of response bytes that a ledger receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BodyLimits {
    /// Limit per response, in bytes.
    pub per_response: usize,
    /// Limit for all responses that are buffered at the same time, in bytes.
    pub total: usize,
}

/// The beginning of a response, which is buffered for the ledger.
#[derive(Debug)]
pub(crate) struct BufferedBody {
    bytes: Vec<u8>,
    limits: BodyLimits,
    /// Number of bytes buffered for all of the proxy's responses.
    total_buffered: Arc<AtomicUsize>,
    /// Number of bytes that should have been buffered for the ledger but were only relayed.
    unbuffered_bytes: u64,
    is_enabled: bool,
}

impl BufferedBody {
    fn new(limits: BodyLimits, total_buffered: Arc<AtomicUsize>) -> Self {
        Self {
            bytes: Vec::new(),
            limits,
            total_buffered,
            unbuffered_bytes: 0,
            is_enabled: limits.per_response > 0,
        }
    }

    fn push(&mut self, data: &[u8]) {
        if !self.is_enabled {
            return;
        }
        let room = self.limits.per_response.saturating_sub(self.bytes.len()).min(data.len());
        let before = self.total_buffered.fetch_add(room, Ordering::Relaxed);
        if before + room > self.limits.total {
            self.total_buffered.fetch_sub(room, Ordering::Relaxed);
            // Stop buffering this response, because text with a gap is useless.
            self.limits.per_response = 0;
            self.unbuffered_bytes += data.len() as u64;
            return;
        }
        self.bytes.extend_from_slice(&data[..room]);
        self.unbuffered_bytes += (data.len() - room) as u64;
    }

    /// Returns the bytes, and no longer counts them toward the limit.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.total_buffered.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for BufferedBody {
    fn drop(&mut self) {
        self.total_buffered.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The step and the request of a finished entry, and the buffered part of the response.
pub(crate) type LedgerLine = (u64, UrlRequest, BufferedBody);

/// Number of bytes that one request has transferred so far in each direction.
#[derive(Debug, Default)]
pub(crate) struct ByteCounts {
    pub(crate) uploaded_bytes: AtomicU64,
    pub(crate) downloaded_bytes: AtomicU64,
}

/// A request in progress. The request is recorded when the entry is dropped, regardless of how the
/// request ended. As a result, the ledger also contains requests whose connections were aborted.
pub(crate) struct LedgerEntry {
    step: u64,
    start: Instant,
    byte_counts: Arc<ByteCounts>,
    queue: UnboundedSender<LedgerLine>,
    body: BufferedBody,
    pub(crate) request: UrlRequest,
}

impl LedgerEntry {
    pub(crate) fn new(
        step: u64,
        request: UrlRequest,
        queue: UnboundedSender<LedgerLine>,
        (limits, total_buffered): (BodyLimits, &Arc<AtomicUsize>),
    ) -> Self {
        let body = BufferedBody::new(limits, Arc::clone(total_buffered));
        Self { step, start: Instant::now(), byte_counts: Arc::default(), queue, body, request }
    }

    /// Buffers a part of the response that is on its way to the client.
    pub(crate) fn push_body(&mut self, data: &[u8]) {
        self.body.push(data);
    }

    /// Stops buffering the response, because the proxy cannot decode its encoding.
    pub(crate) fn stop_buffering(&mut self) {
        self.body.limits.per_response = 0;
    }

    pub(crate) fn byte_counts(&self) -> &Arc<ByteCounts> {
        &self.byte_counts
    }
}

impl Drop for LedgerEntry {
    fn drop(&mut self) {
        let mut request = std::mem::take(&mut self.request);
        request.bytes_up = self.byte_counts.uploaded_bytes.load(Ordering::Relaxed);
        request.bytes_down = self.byte_counts.downloaded_bytes.load(Ordering::Relaxed);
        request.seconds = self.start.elapsed().as_secs_f64();
        let nothing =
            BufferedBody::new(BodyLimits::default(), Arc::clone(&self.body.total_buffered));
        let held = std::mem::replace(&mut self.body, nothing);
        request.not_compared = held.unbuffered_bytes;
        // The writer outlives every entry unless the writer failed. In that case, its fault has
        // already ended the try.
        let _ = self.queue.send((self.step, request, held));
    }
}
