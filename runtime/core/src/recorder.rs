//! The one writer of a try: journal, blobs and snapshots behind one lock.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use proctor_gateway::{Attempt, ExchangeSink, Served, Waiting};
use proctor_record::{Blobs, Journal, Tree};
use proctor_sandbox_api::{
    SandboxHandle,
    wire::{RawPath, RefusalKind},
};
use proctor_types::{Ask, AskRecord, Event, Fault, Layer, Message, RequestClass};
use serde_json::json;
use tokio::sync::Mutex;

/// What a recorder hears of a request's waits before a go.
pub(crate) enum Wait {
    /// It goes on.
    Is(Waiting),
    /// It is over, and was of so many seconds.
    Was(f64),
}

/// Shared by the session and the gateway's sink, which both write to the same journal.
pub(crate) struct Recorder {
    /// The trial's.
    blobs: Blobs,
    on_wait: Box<dyn Fn(Wait) + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    journal: Journal,
    step: u64,
    tree: Tree,
    /// Of `tree`.
    digest: String,
    last_messages: Vec<Message>,
}

impl Recorder {
    pub(crate) fn new(
        journal: Journal,
        blobs: Blobs,
        on_wait: Box<dyn Fn(Wait) + Send + Sync>,
    ) -> Arc<Self> {
        let state = State {
            journal,
            step: 0,
            tree: Tree::default(),
            digest: String::new(),
            last_messages: Vec::new(),
        };
        Arc::new(Self { blobs, on_wait, state: Mutex::new(state) })
    }

    /// Appends one event and flushes it. Answers and endings are also synced to the disk: they
    /// are what a crash must not cost twice.
    pub(crate) async fn append(&self, event: Event) -> Result<(), Fault> {
        let durable = matches!(
            event,
            Event::ModelAnswered { .. } | Event::GraceAnswered { .. } | Event::TrialEnded { .. }
        );
        let mut state = self.state.lock().await;
        let step = state.step;
        if matches!(event, Event::TrialEnded { .. }) {
            // What the journal names is on the disk before the journal is finished.
            self.blobs.sync().map_err(record_fault)?;
        }
        if durable {
            state.journal.append_durable(step, event).map_err(record_fault)?;
        } else {
            state.journal.append(step, event).map_err(record_fault)?;
        }
        Ok(())
    }

    /// Appends an event under the step that it belongs to, which may be over.
    pub(crate) async fn append_at(&self, step: u64, event: Event) -> Result<(), Fault> {
        self.state.lock().await.journal.append(step, event).map_err(record_fault)?;
        Ok(())
    }

    pub(crate) async fn step(&self) -> u64 {
        self.state.lock().await.step
    }

    pub(crate) async fn set_step(&self, step: u64) {
        self.state.lock().await.step = step;
    }

    pub(crate) fn blob(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.blobs.put(bytes).map_err(record_fault)
    }

    /// Keeps the exact bytes of a request or a response of this trial, and returns their hash.
    pub(crate) fn body(&self, bytes: &[u8]) -> Result<String, Fault> {
        self.blobs.put_body(bytes).map_err(record_fault)
    }

    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Records a request; messages that the request before it held at its head are not repeated.
    pub(crate) async fn asked(&self, ask: &Ask) -> Result<(), Fault> {
        let record = {
            let mut state = self.state.lock().await;
            let kept = state
                .last_messages
                .iter()
                .zip(&ask.messages)
                .take_while(|(old, new)| old == new)
                .count();
            let new = ask.messages.get(kept..).unwrap_or_default().to_vec();
            let tools = if kept == 0 { ask.tools.clone() } else { Vec::new() };
            state.last_messages.truncate(kept);
            state.last_messages.extend_from_slice(&new);
            AskRecord { kept, new: Ask { messages: new, tools } }
        };
        self.append(Event::ModelAsked { ask: record }).await
    }

    /// Takes a snapshot of the work directory and records it; returns the tree.
    pub(crate) async fn snapshot(
        &self,
        handle: &SandboxHandle,
        workdir: &RawPath,
        fresh: bool,
    ) -> Result<Tree, Fault> {
        let begun = Instant::now();
        let request = proctor_setup::snapshot_request(workdir, fresh);
        let (reply, contents) = match handle.snapshot(request).await {
            Ok(taken) => taken,
            // What the agent made is too much to look at: the last tree that was not is its work. A
            // fault here would let it keep a trial from being scored.
            Err(error) if !fresh && error.refusal() == Some(RefusalKind::TooLarge) => {
                let note = json!({ "snapshot_refused": error.to_string() });
                self.append(Event::Noted { note: note.as_object().cloned().unwrap_or_default() })
                    .await?;
                return Ok(self.state.lock().await.tree.clone());
            }
            Err(error) => return Err(error.fault("taking a snapshot")),
        };
        let mut bytes = 0;
        for (hash, content) in &contents {
            bytes += content.len() as u64;
            // What the agent finds at its start, the other trials of the task find too.
            let stored = match fresh {
                true => self.blobs.put_shared(content),
                false => self.blobs.put(content),
            };
            let stored = stored.map_err(record_fault)?;
            if stored != *hash {
                return Err(Fault::new(
                    Layer::Sandbox,
                    format!("the sandbox sent content that does not hash to {hash}"),
                ));
            }
        }
        let (changed, removed) = (reply.changed.len() as u64, reply.removed.len() as u64);
        let (tree, snapshot) = {
            let mut state = self.state.lock().await;
            if fresh {
                state.tree = Tree::default();
            }
            state.tree.advance(&reply);
            let saved = match fresh {
                true => state.tree.save(&self.blobs),
                false => state.tree.save_after(&self.blobs, &state.digest, &reply),
            };
            state.digest = saved.map_err(record_fault)?;
            (state.tree.clone(), state.digest.clone())
        };
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        self.append(Event::SnapshotTaken { snapshot, changed, removed, bytes, ms }).await?;
        Ok(tree)
    }
}

#[async_trait]
impl ExchangeSink for Recorder {
    async fn attempt(&self, attempt: Attempt) -> Result<(), Fault> {
        // A back-off was told with its length when it began.
        (self.on_wait)(Wait::Was(attempt.queued_seconds));
        let body = if attempt.response_body.is_empty() {
            None
        } else {
            Some(self.body(&attempt.response_body)?)
        };
        let request = self.body(&attempt.request_body)?;
        self.append(Event::ModelAttempted {
            attempt: attempt.number,
            status: attempt.status,
            error: attempt.error,
            wait_seconds: attempt.wait_seconds,
            queued_seconds: attempt.queued_seconds,
            usage: attempt.usage,
            cost_usd: attempt.cost_usd,
            request: Some(request),
            body,
        })
        .await
    }

    fn waiting(&self, waiting: Waiting) {
        (self.on_wait)(Wait::Is(waiting));
    }

    async fn served(&self, served: Served) -> Result<(), Fault> {
        let request = self.body(&served.request)?;
        let response = match served.response.is_empty() {
            true => None,
            false => Some(self.body(&served.response)?),
        };
        let step = served.delivered && served.class == RequestClass::Main;
        if step {
            self.state.lock().await.step += 1;
        }
        self.append(Event::RequestServed {
            number: served.number,
            client: served.client,
            upstream: served.upstream,
            path: served.path,
            class: served.class,
            streamed: served.streamed,
            status: served.status,
            error: served.error,
            delivered: served.delivered,
            request,
            response,
            losses: served.losses,
            usage: served.usage,
            cost_usd: served.cost_usd,
            seconds: served.seconds,
            first_byte_seconds: served.first_byte_seconds,
        })
        .await?;
        match served.answer.filter(|_| step) {
            Some(answer) => self.append(Event::ModelAnswered { answer }).await,
            None => Ok(()),
        }
    }
}

/// A record that cannot be written voids the try: no record, no result.
pub(crate) fn record_fault(error: impl std::fmt::Display) -> Fault {
    Fault::new(Layer::Record, error.to_string())
        .hint("check the free space and the permissions of the run directory")
}
