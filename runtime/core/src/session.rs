//! The session: one trial as its scaffold sees it. Budgets, recording and snapshots happen here.

use std::sync::Arc;

use async_trait::async_trait;
use proctor_gateway::{AskError, TrialGateway};
use proctor_record::Tree;
use proctor_sandbox_api::{Room, wire::RawPath};
use proctor_scaffold_api::{Brief, Session, Stop, ToolDone};
use proctor_seat::ApplyError;
use proctor_types::{Answer, Ask, Event, Message, Spent};
use serde_json::{Map, Value};

use crate::recorder::Recorder;

pub(crate) struct TrialSession {
    brief: Brief,
    room: Arc<Room>,
    recorder: Arc<Recorder>,
    /// Absent for scaffolds that ask no model.
    gateway: Option<Arc<TrialGateway>>,
    workdir: RawPath,
    tree: Tree,
    /// Answers delivered, or steps replayed.
    steps: u64,
    /// The last step's snapshot has not been taken yet.
    open_step: bool,
    malformed: u64,
    stepped: Box<dyn Fn(u64) + Send + Sync>,
}

impl TrialSession {
    pub(crate) fn new(
        brief: Brief,
        room: Arc<Room>,
        recorder: Arc<Recorder>,
        gateway: Option<Arc<TrialGateway>>,
        base: Tree,
        stepped: Box<dyn Fn(u64) + Send + Sync>,
    ) -> Self {
        let workdir = RawPath::from(brief.workdir.as_str());
        Self {
            brief,
            room,
            recorder,
            gateway,
            workdir,
            tree: base,
            steps: 0,
            open_step: false,
            malformed: 0,
            stepped,
        }
    }

    /// Takes the last snapshot, whatever ended the loop, and returns the final tree.
    pub(crate) async fn finish(&mut self) -> Result<Tree, proctor_types::Fault> {
        self.tree = self.recorder.snapshot(&self.room, &self.workdir, false).await?;
        self.open_step = false;
        Ok(self.tree.clone())
    }

    pub(crate) fn malformed(&self) -> u64 {
        self.malformed
    }

    pub(crate) fn spent(&self) -> Spent {
        match &self.gateway {
            Some(gateway) => gateway.spent(),
            None => Spent { steps: self.steps, ..Spent::default() },
        }
    }

    async fn close_step(&mut self) -> Result<(), Stop> {
        if self.open_step {
            self.tree = self.recorder.snapshot(&self.room, &self.workdir, false).await?;
            self.open_step = false;
        }
        Ok(())
    }

    async fn open_next_step(&mut self) {
        self.steps += 1;
        self.open_step = true;
        self.recorder.set_step(self.steps).await;
        (self.stepped)(self.steps);
    }
}

#[async_trait]
impl Session for TrialSession {
    fn brief(&self) -> &Brief {
        &self.brief
    }

    fn room(&self) -> &Arc<Room> {
        &self.room
    }

    async fn ask(&mut self, ask: Ask) -> Result<Answer, Stop> {
        self.close_step().await?;
        let Some(gateway) = self.gateway.clone() else {
            return Err(Stop::Refused("this arm names no model".into()));
        };
        // The one place where a limit ends a trial: after step N's snapshot, before request N+1.
        if let Some(budget) = gateway.reached() {
            return Err(Stop::Budget(budget));
        }
        self.recorder.asked(&ask).await?;
        let steps = self.steps;
        let answer = gateway.ask(&ask).await.map_err(|error| stop(error, steps))?;
        self.open_next_step().await;
        self.recorder.append(Event::ModelAnswered { answer: answer.clone() }).await?;
        if answer.refused {
            let said = answer.extra.get("refusal").and_then(Value::as_str);
            return Err(Stop::Refused(head(said.unwrap_or(&answer.content)).to_owned()));
        }
        Ok(answer)
    }

    async fn tool_called(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop> {
        let event = Event::ToolCalled { call_id: call_id.into(), name: name.into(), arguments };
        Ok(self.recorder.append(event).await?)
    }

    async fn tool_returned(&mut self, done: ToolDone) -> Result<(), Stop> {
        self.malformed += u64::from(done.malformed);
        let full = match &done.full {
            Some(bytes) => Some(self.recorder.blob(bytes)?),
            None => None,
        };
        let event = Event::ToolReturned {
            call_id: done.call_id,
            name: done.name,
            shown: done.shown,
            full,
            exit_status: done.exit_status,
            seconds: done.duration.as_secs_f64(),
            malformed: done.malformed,
        };
        Ok(self.recorder.append(event).await?)
    }

    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop> {
        Ok(self.recorder.append(Event::Noted { note }).await?)
    }

    async fn end_step(&mut self) -> Result<(), Stop> {
        self.open_next_step().await;
        self.close_step().await
    }

    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop> {
        match proctor_seat::apply_patch(&self.room, &self.workdir, patch.as_bytes()).await {
            Ok(_) => Ok(()),
            Err(ApplyError::Room(error)) => Err(error.fault("applying a patch").into()),
            Err(error @ ApplyError::Patch(_)) => Err(Stop::Fault(
                proctor_types::Fault::new(
                    proctor_types::Layer::Seat,
                    format!("the patch does not apply: {error}"),
                )
                .mend("check `gold` and `mask` with `proctor tasks validate`"),
            )),
        }
    }

    fn count_tokens(&self, messages: &[Message]) -> u64 {
        proctor_gateway::tokens::count_messages(messages)
    }
}

/// What a refused request means for a trial that has had this many answers.
pub(crate) fn stop(error: AskError, answers: u64) -> Stop {
    match error {
        AskError::Budget(budget) => Stop::Budget(budget),
        AskError::SharedBudget { kind, .. } => Stop::Budget(kind),
        AskError::Cancelled => Stop::Cancelled,
        AskError::Fault(fault) => Stop::Fault(fault),
        // Nothing was ever answered: the request is wrong as the arm is configured, which says
        // nothing of the model.
        AskError::Rejected { status, body } if answers == 0 => Stop::Fault(
            proctor_types::Fault::new(
                proctor_types::Layer::Model,
                format!("the endpoint refused the first request with {status}: {}", head(&body)),
            )
            .mend("correct the model's name or parameters in the configuration")
            .lasting(),
        ),
        AskError::Rejected { status, body } => {
            Stop::Refused(format!("the endpoint answered {status}: {}", head(&body)))
        }
    }
}

/// The first 500 characters of a text.
fn head(text: &str) -> &str {
    match text.char_indices().nth(500) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
