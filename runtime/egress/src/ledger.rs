//! The ledger: every request, assigned to the step that made it.

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

/// Where requests are recorded.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The current step; asked once per request, when it arrives.
    async fn step(&self) -> u64;

    /// How much of each response [`Ledger::answered`] receives, and of all responses in transit
    /// together.
    fn reads(&self) -> Reading {
        Reading::default()
    }

    /// Receives the body of a response to an allowed request, as far as `reads` asks for it. May
    /// add to the entry of the request, which is recorded next. An `Err` ends the attempt, like one
    /// of `record`.
    async fn answered(&self, _request: &mut UrlRequest, _body: Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    /// Records one request for the step in which it arrived. Nothing counts without a record: an
    /// `Err` ends the attempt.
    async fn record(&self, step: u64, request: UrlRequest) -> Result<(), Fault>;
}

/// Number of response bytes that a ledger wants to see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Per response.
    pub each: usize,
    /// For all responses held at one time.
    pub together: usize,
}

/// The beginning of a response, held for the ledger.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Vec<u8>,
    reading: Reading,
    /// Bytes held of all responses of the proxy.
    together: Arc<AtomicUsize>,
    /// Bytes that passed but are not held, if any were requested.
    missed: u64,
    is_asked: bool,
}

impl Held {
    fn new(reading: Reading, together: Arc<AtomicUsize>) -> Self {
        Self { bytes: Vec::new(), reading, together, missed: 0, is_asked: reading.each > 0 }
    }

    fn take(&mut self, data: &[u8]) {
        if !self.is_asked {
            return;
        }
        let room = self.reading.each.saturating_sub(self.bytes.len()).min(data.len());
        let before = self.together.fetch_add(room, Ordering::Relaxed);
        if before + room > self.reading.together {
            self.together.fetch_sub(room, Ordering::Relaxed);
            // Hold no more of it: a body with a gap is not usable text.
            self.reading.each = 0;
            self.missed += data.len() as u64;
            return;
        }
        self.bytes.extend_from_slice(&data[..room]);
        self.missed += (data.len() - room) as u64;
    }

    /// Takes the bytes and makes room for others.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.together.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.together.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// A finished entry, the step that it belongs to, and what is held of the response.
pub(crate) type Line = (u64, UrlRequest, Held);

/// Bytes of one request, counted as they pass.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) up: AtomicU64,
    pub(crate) down: AtomicU64,
}

/// A request in progress. It is recorded when it is dropped, however it ended, so an aborted
/// connection is in the ledger too.
pub(crate) struct Entry {
    step: u64,
    begun: Instant,
    counted: Arc<Counted>,
    queue: UnboundedSender<Line>,
    held: Held,
    pub(crate) request: UrlRequest,
}

impl Entry {
    pub(crate) fn new(
        step: u64,
        request: UrlRequest,
        queue: UnboundedSender<Line>,
        (reading, together): (Reading, &Arc<AtomicUsize>),
    ) -> Self {
        let held = Held::new(reading, Arc::clone(together));
        Self { step, begun: Instant::now(), counted: Arc::default(), queue, held, request }
    }

    /// A part of the response has passed on its way to the client.
    pub(crate) fn passed(&mut self, data: &[u8]) {
        self.held.take(data);
    }

    /// The response has an encoding that nothing here reads: none of it is held.
    pub(crate) fn is_unreadable(&mut self) {
        self.held.reading.each = 0;
    }

    pub(crate) fn counted(&self) -> &Arc<Counted> {
        &self.counted
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut request = std::mem::take(&mut self.request);
        request.bytes_up = self.counted.up.load(Ordering::Relaxed);
        request.bytes_down = self.counted.down.load(Ordering::Relaxed);
        request.seconds = self.begun.elapsed().as_secs_f64();
        let nothing = Held::new(Reading::default(), Arc::clone(&self.held.together));
        let held = std::mem::replace(&mut self.held, nothing);
        request.not_compared = held.missed;
        // The writer outlives every entry; if it were gone, its fault would have ended the attempt.
        let _ = self.queue.send((self.step, request, held));
    }
}
