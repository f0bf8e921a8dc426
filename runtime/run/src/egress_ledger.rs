//! Records the traffic of a trial's egress proxy and compares responses with the hidden solution.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use proctor_egress::{BodyLimits, Ledger};
use proctor_forensics::Solution;
use proctor_types::{Event, Fault, FaultLayer, Task, UrlRequest};

use crate::recorder::Recorder;

/// Writes requests to a try's journal. If a response shares lines with the solution, it is stored
/// as a blob. After the trial, forensics decides whether the response counts as a leak.
pub(crate) struct EgressLedger {
    recorder: Arc<Recorder>,
    solution: Option<Arc<Solution>>,
    /// Number of stored responses.
    stored_responses: AtomicUsize,
}

impl EgressLedger {
    pub(crate) fn new(task: &Task, recorder: &Arc<Recorder>) -> Result<Self, Fault> {
        let solution = Solution::from_task(task)?.map(Arc::new);
        Ok(Self { recorder: Arc::clone(recorder), solution, stored_responses: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl Ledger for EgressLedger {
    async fn current_step(&self) -> u64 {
        self.recorder.step()
    }

    fn body_limits(&self) -> BodyLimits {
        let limits = self.solution.as_ref().map(|solution| solution.limits());
        limits.map_or_else(BodyLimits::default, |(each, together, _)| BodyLimits {
            per_response: each,
            total: together,
        })
    }

    async fn receive_body(&self, request: &mut UrlRequest, body: Vec<u8>) -> Result<(), Fault> {
        let Some(solution) = &self.solution else { return Ok(()) };
        let (.., most) = solution.limits();
        if self.stored_responses.load(Ordering::Relaxed) >= most {
            request.not_compared = request.bytes_down;
            return Ok(());
        }
        // Decompression may produce megabytes of data, so it must not run on the threads that serve
        // other trials.
        let solution = Arc::clone(solution);
        let compared =
            tokio::task::spawn_blocking(move || solution.is_contained_in(&body).then_some(body))
                .await;
        let body = compared.map_err(|error| {
            let what = format!("cannot compare a response with the solution: {error}");
            Fault::new(FaultLayer::Record, what)
        })?;
        if let Some(body) = body {
            self.stored_responses.fetch_add(1, Ordering::Relaxed);
            request.kept = Some(self.recorder.store_blob(&body)?);
        }
        Ok(())
    }

    async fn record(&self, step: u64, request: UrlRequest) -> Result<(), Fault> {
        self.recorder.append_at(step, Event::UrlRequested(Box::new(request))).await
    }
}
