//! The ledger: every request, under the step that made it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use async_trait::async_trait;
use proctor_types::{Fault, UrlRequest};
use tokio::sync::mpsc::UnboundedSender;

/// Where requests are recorded.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The step that is being made now; asked once a request, when it arrives.
    async fn step(&self) -> u64;

    /// Records one request under the step that it arrived in. No record, no result: an `Err` ends
    /// the try.
    async fn record(&self, step: u64, request: UrlRequest) -> Result<(), Fault>;
}

/// Bytes of one request, counted where they pass.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) up: AtomicU64,
    pub(crate) down: AtomicU64,
}

/// A request that goes on. It is recorded when it is dropped, whatever ended it: that is why an
/// aborted connection is in the ledger too.
pub(crate) struct Entry {
    step: u64,
    begun: Instant,
    counted: Arc<Counted>,
    queue: UnboundedSender<(u64, UrlRequest)>,
    pub(crate) request: UrlRequest,
}

impl Entry {
    pub(crate) fn new(
        step: u64,
        request: UrlRequest,
        queue: UnboundedSender<(u64, UrlRequest)>,
    ) -> Self {
        Self { step, begun: Instant::now(), counted: Arc::default(), queue, request }
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
        // The writer outlives every entry; were it gone, its fault would have ended the try.
        let _ = self.queue.send((self.step, request));
    }
}
