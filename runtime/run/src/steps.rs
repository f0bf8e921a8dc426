//! Ends each step with a snapshot of the work directory, both for built-in loops and for clients in
//! the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use proctor_gateway::{ExchangeSink, Meter, WaitNotice};
use proctor_record::Tree;
use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_types::{Event, Fault, FaultCause};
use tokio::sync::Mutex;

use crate::recorder::{ActivityUpdate, Recorder};

/// Takes a step's snapshot when the step is over, before the main conversation's next request is
/// sent. That request comes from a built-in loop or from a client in the sandbox, and waits while
/// the snapshot is taken. The meter determines the current step by counting the responses.
pub(crate) struct StepSnapshots {
    recorder: Arc<Recorder>,
    handle: Arc<SandboxHandle>,
    workdir: RawPath,
    meter: Arc<Meter>,
    on_step: Box<dyn Fn(u64) + Send + Sync>,
    /// The last step with a snapshot.
    last_snapshot_step: Mutex<u64>,
}

impl StepSnapshots {
    /// `last_snapshot_step` is the last step with a snapshot in the record.
    pub(crate) fn new(
        recorder: Arc<Recorder>,
        (handle, workdir): (Arc<SandboxHandle>, RawPath),
        meter: Arc<Meter>,
        on_step: Box<dyn Fn(u64) + Send + Sync>,
        last_snapshot_step: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            recorder,
            handle,
            workdir,
            meter,
            on_step,
            last_snapshot_step: Mutex::new(last_snapshot_step),
        })
    }

    /// Takes the last step's snapshot, unless there already is one.
    pub(crate) async fn end_step(&self) -> Result<(), Fault> {
        let mut kept = self.last_snapshot_step.lock().await;
        let step = self.meter.steps();
        if step > *kept {
            self.recorder.snapshot(&self.handle, &self.workdir, false).await?;
            *kept = step;
        }
        Ok(())
    }

    /// Takes the final snapshot, no matter how the trial ended, and returns its tree.
    ///
    /// If the sandbox is gone but the last step has a snapshot, that tree counts as the agent's
    /// work. Otherwise the content of the sandbox is unknown.
    ///
    /// `reuse_snapshot` means that the next request of a client in the sandbox was rejected. The
    /// snapshot that was taken for that request is then the last one, so the client's changes after
    /// the rejection do not count.
    pub(crate) async fn finish(&self, reuse_snapshot: bool) -> Result<Arc<Tree>, Fault> {
        let mut kept = self.last_snapshot_step.lock().await;
        let step = self.meter.steps();
        let known = step > 0 && *kept == step;
        let must_look = self.recorder.mark_last_snapshot().await;
        if known && reuse_snapshot && !must_look {
            return Ok(self.recorder.last_tree().await);
        }
        *kept = step;
        match self.recorder.snapshot(&self.handle, &self.workdir, false).await {
            Err(fault) if known && fault.cause == FaultCause::Gone => {
                let note = ("no_final_snapshot".to_owned(), fault.to_string().into());
                let note = [note].into_iter().collect();
                self.recorder.append(Event::Noted { note }).await?;
                Ok(self.recorder.last_tree().await)
            }
            taken => taken,
        }
    }

    /// Counts a step of a scaffold that calls no model.
    pub(crate) fn count_step(&self) {
        self.meter.count_step();
        (self.on_step)(self.meter.steps());
    }
}

#[async_trait]
impl ExchangeSink for StepSnapshots {
    async fn store_body(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.recorder.store_body(bytes)
    }

    async fn record_event(&self, step: u64, event: Event) -> Result<(), Fault> {
        if let Event::ModelAttempted { queued_seconds, .. } = &event {
            // Report only the time in the queue. The duration of a back-off was already reported at
            // its start, through `report_wait`.
            self.recorder.report_activity(ActivityUpdate::WaitEnded(*queued_seconds));
        }
        let answered = matches!(event, Event::ModelAnswered { .. });
        self.recorder.append_at(step, event).await?;
        if answered {
            (self.on_step)(step);
        }
        Ok(())
    }

    async fn on_step_end(&self) -> Result<(), Fault> {
        self.end_step().await
    }

    fn report_wait(&self, waiting: WaitNotice) {
        self.recorder.report_activity(ActivityUpdate::WaitStarted(waiting));
    }
}
