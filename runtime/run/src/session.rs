//! The session through which a scaffold runs one trial. It enforces budgets, records events and
//! takes snapshots.

use std::{borrow::Cow, collections::VecDeque, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_gateway::{ContextWindowRules, GatewayServer, Meter, RequestError, TrialGateway};
use proctor_record::{Tree, TrialDir};
use proctor_sandbox_api::{SandboxHandle, wire::RawPath};
use proctor_scaffold_api::{
    FileEdit, FinishedToolCall, InitialTree, Session, Stop, TaskBrief, Traffic,
    notices::{self, RemainingTime},
};
use proctor_setup::ApplyError;
use proctor_types::{
    BudgetKind, BudgetScope, Disclosure, EditRecord, Event, Fault, FaultCause, FaultLayer, Message,
    ModelRequest, ModelResponse, Spending,
};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::{
    CancelSignal, RunContext,
    error::record_fault,
    recorder::Recorder,
    resume_point::{RecordedStep, ResumePoint},
    steps::StepSnapshots,
};

pub(crate) struct TrialSession {
    brief: TaskBrief,
    handle: Arc<SandboxHandle>,
    recorder: Arc<Recorder>,
    steps: Arc<StepSnapshots>,
    meter: Arc<Meter>,
    /// `None` for scaffolds that call no model.
    gateway: Option<Arc<TrialGateway>>,
    workdir: RawPath,
    malformed_calls: u64,
    /// Whether the record contains an event for the limit that ended the trial.
    is_limit_recorded: bool,
    client: ClientState,
    /// Recorded responses that have not been replayed to the scaffold yet.
    replay_steps: VecDeque<RecordedStep>,
    /// Results of the tool calls in the last replayed response.
    replayed_results: VecDeque<FinishedToolCall>,
    /// Whether the record contains the model's final response after the limit.
    is_final_response_recorded: bool,
}

/// State for a scaffold whose client runs in a sandbox.
pub(crate) struct ClientState {
    /// `None` if the scaffold requested no model endpoint.
    pub(crate) server: Option<GatewayServer>,
    /// The sandbox of the scaffold's own program, if it has one.
    pub(crate) program_sandbox: Option<Arc<SandboxHandle>>,
    /// Becomes true when the trial cannot continue.
    pub(crate) ending_signal: watch::Receiver<bool>,
    /// Directory that stores the client's files.
    pub(crate) dir: TrialDir,
    /// The run's context, which signals when a resumable trial must stop after its current step.
    /// `None` if the trial is not resumable.
    pub(crate) wind_down_context: Option<Arc<RunContext>>,
}

/// The parts from which a session is created.
pub(crate) struct SessionParts {
    pub(crate) brief: TaskBrief,
    /// The task's sandbox.
    pub(crate) handle: Arc<SandboxHandle>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) steps: Arc<StepSnapshots>,
    pub(crate) meter: Arc<Meter>,
    /// `None` if the arm has no model.
    pub(crate) gateway: Option<Arc<TrialGateway>>,
    pub(crate) client: ClientState,
}

impl TrialSession {
    pub(crate) fn new(parts: SessionParts) -> Self {
        let SessionParts { brief, handle, recorder, steps, meter, gateway, client } = parts;
        let workdir = RawPath::from(brief.workdir.as_str());
        Self {
            brief,
            handle,
            recorder,
            steps,
            meter,
            gateway,
            workdir,
            malformed_calls: 0,
            is_limit_recorded: false,
            client,
            replay_steps: VecDeque::new(),
            replayed_results: VecDeque::new(),
            is_final_response_recorded: false,
        }
    }

    /// Continues the trial from its record.
    pub(crate) fn resume_from(mut self, resume_point: &ResumePoint) -> Self {
        self.replay_steps = resume_point.steps.clone();
        self.malformed_calls = resume_point.malformed_calls;
        (self.is_limit_recorded, self.is_final_response_recorded) =
            (resume_point.is_limit_recorded, resume_point.is_final_response_recorded);
        self
    }

    /// Stores a file's content, which an undo may need later, and returns its hash.
    fn store_content(&self, content: Option<&Vec<u8>>) -> Result<Option<String>, Fault> {
        content.map(|bytes| self.recorder.store_blob(bytes)).transpose()
    }

    /// Takes the last snapshot, no matter how the loop ended, and returns the snapshot's tree. If
    /// `reuse_snapshot` is set, reuses the last step's snapshot, provided that there is one.
    pub(crate) async fn finish(&mut self, reuse_snapshot: bool) -> Result<Arc<Tree>, Fault> {
        self.steps.finish(reuse_snapshot).await
    }

    pub(crate) fn malformed_calls(&self) -> u64 {
        self.malformed_calls
    }

    pub(crate) fn spending(&self) -> Spending {
        self.meter.spending()
    }

    /// Records the limit that ended the trial, unless it is already recorded.
    pub(crate) async fn record_limit(
        &mut self,
        scope: BudgetScope,
        budget: BudgetKind,
    ) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.is_limit_recorded, true) {
            let spent = self.spending();
            self.recorder.append(Event::BudgetReached { budget, scope, spent }).await?;
        }
        Ok(())
    }

    /// Handles a limit that is reached before `request`. Requests a final response from the model
    /// if the arm allows it. If that request fails, the failure is only recorded in a note, because
    /// the trial is already over.
    async fn handle_exhausted_budget(
        &mut self,
        gateway: &TrialGateway,
        request: &ModelRequest,
        kind: BudgetKind,
    ) -> Stop {
        let hard = self.meter.budget().ending.is_hard();
        let grace = !hard && !kind.is_time() && !self.is_final_response_recorded;
        let said = match self.record_limit(BudgetScope::Trial, kind).await {
            Ok(()) if grace => self.request_final_response(gateway, request, kind).await,
            told => told,
        };
        said.map_or_else(Stop::Fault, |()| Stop::Budget(kind))
    }

    async fn request_final_response(
        &mut self,
        gateway: &TrialGateway,
        request: &ModelRequest,
        kind: BudgetKind,
    ) -> Result<(), Fault> {
        let ask = notices::add_grace_notice(request.clone(), kind)?;
        let Err(error) = gateway.ask_after_limit(&ask).await else { return Ok(()) };
        let why = ("no_grace_answer".to_owned(), error.to_string().into());
        self.recorder.append(Event::Noted { note: [why].into_iter().collect() }).await
    }

    /// Returns the request to send. If the arm discloses its remaining budget, adds a notice about
    /// it.
    fn with_budget_notice<'a>(
        &self,
        request: &'a ModelRequest,
    ) -> Result<Cow<'a, ModelRequest>, Fault> {
        let budget = self.meter.budget();
        if budget.disclosure != Disclosure::Countdown {
            return Ok(Cow::Borrowed(request));
        }
        let left = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let time = RemainingTime {
            wall_seconds: left(self.meter.remaining_wall_time()),
            working_seconds: left(self.meter.remaining_working_time()),
            tool_seconds: left(self.meter.remaining_tool_time()),
        };
        notices::add_countdown_notice(
            request.clone(),
            budget,
            &self.meter.spending().delivered(),
            time,
        )
        .map(Cow::Owned)
    }
}

#[async_trait]
impl Session for TrialSession {
    fn brief(&self) -> &TaskBrief {
        &self.brief
    }

    fn sandbox(&self) -> &Arc<SandboxHandle> {
        &self.handle
    }

    fn own_sandbox(&self) -> Option<&Arc<SandboxHandle>> {
        self.client.program_sandbox.as_ref()
    }

    async fn ask(&mut self, ask: &ModelRequest) -> Result<ModelResponse, Stop> {
        if let Some(RecordedStep { response: answer, calls }) = self.replay_steps.pop_front() {
            self.replayed_results = calls;
            return stop_on_refusal(answer);
        }
        self.steps.end_step().await?;
        if self
            .client
            .wind_down_context
            .as_ref()
            .is_some_and(|context| context.cancel.is_winding_down())
        {
            // Every earlier step is recorded, so `resume` continues with this request.
            return Err(CancelSignal::cancelled_fault().into());
        }
        let Some(gateway) = self.gateway.clone() else {
            return Err(Stop::Refused("this arm has no model".into()));
        };
        // A limit ends a trial of a built-in loop here: after step N's snapshot and before request
        // N+1.
        if let Some(kind) = gateway.reached_limit() {
            return Err(self.handle_exhausted_budget(&gateway, ask, kind).await);
        }
        let asked = gateway.ask(&*self.with_budget_notice(ask)?).await;
        let answer = match asked {
            Ok(answer) => answer,
            Err(RequestError::Budget(kind)) => {
                return Err(self.handle_exhausted_budget(&gateway, ask, kind).await);
            }
            Err(error) => return Err(stop_from_error(error, &gateway)),
        };
        stop_on_refusal(answer)
    }

    async fn recorded_result(
        &mut self,
        call_id: &str,
        name: &str,
    ) -> Result<Option<FinishedToolCall>, Stop> {
        match self.replayed_results.pop_front() {
            Some(done) if done.call_id == call_id && done.name == name => Ok(Some(done)),
            None => Ok(None),
            Some(done) => {
                let what = format!(
                    "the record contains call `{}` to `{}`, but the scaffold made call `{call_id}` to `{name}`",
                    done.call_id, done.name
                );
                Err(Fault::new(FaultLayer::Record, what).cause(FaultCause::Invalid).into())
            }
        }
    }

    async fn record_tool_call(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop> {
        let event = Event::ToolCalled { call_id: call_id.into(), name: name.into(), arguments };
        self.recorder.append(event).await?;
        self.meter.note_tool_start();
        Ok(())
    }

    async fn record_tool_result(&mut self, call: FinishedToolCall) -> Result<(), Stop> {
        self.meter.note_tool_end();
        self.malformed_calls += u64::from(call.is_malformed);
        let full = match &call.full_output {
            Some(bytes) => Some(self.recorder.store_blob(bytes)?),
            None => None,
        };
        let edited = match &call.file_edit {
            None => None,
            Some(FileEdit { path, old_content: before, new_content: after }) => Some(EditRecord {
                path: path.clone(),
                before: self.store_content(before.as_ref())?,
                after: self.store_content(after.as_ref())?,
            }),
        };
        let event = Event::ToolReturned {
            call_id: call.call_id,
            name: call.name,
            shown: call.shown_output,
            full,
            exit_status: call.exit_status,
            seconds: call.duration.as_secs_f64(),
            malformed: call.is_malformed,
            edited,
        };
        Ok(self.recorder.append(event).await?)
    }

    async fn wait_for_end(&mut self) {
        let mut ending = self.client.ending_signal.clone();
        if ending.wait_for(|ending| *ending).await.is_err() {
            // The sender was dropped, so wait until the trial drops this future.
            std::future::pending::<()>().await;
        }
    }

    fn traffic(&self) -> Traffic {
        self.client.server.as_ref().map(GatewayServer::traffic).unwrap_or_default()
    }

    async fn store_evidence(&mut self, name: &str, content: &[u8]) -> Result<(), Stop> {
        Ok(self.client.dir.store_scaffold_file(name, content).map_err(record_fault)?)
    }

    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop> {
        Ok(self.recorder.append(Event::Noted { note }).await?)
    }

    async fn hide(&mut self, paths: &[String]) -> Result<(), Stop> {
        let root = format!("{}/", self.brief.workdir.trim_end_matches('/'));
        let below = paths.iter().filter_map(|path| path.strip_prefix(&root)).map(RawPath::from);
        self.recorder.hide(&below.collect::<Vec<_>>()).await;
        Ok(())
    }

    async fn end_step(&mut self) -> Result<(), Stop> {
        self.steps.count_step();
        self.steps.end_step().await?;
        // As with steps of a model, check the limit only after the step is complete.
        self.meter.reached_limit().map_or(Ok(()), |kind| Err(Stop::Budget(kind)))
    }

    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop> {
        let owner = self.brief.user.as_deref();
        let (handle, root) = (&self.handle, &self.workdir);
        match proctor_setup::apply_patch(handle, root, patch.as_bytes(), owner).await {
            Ok(_) => Ok(()),
            Err(ApplyError::Sandbox(error)) => Err(error.to_fault("applying a patch").into()),
            Err(error @ ApplyError::Patch(_)) => Err(Stop::Fault(
                Fault::new(FaultLayer::Setup, format!("the patch does not apply: {error}"))
                    .cause(FaultCause::Invalid)
                    .hint("check `gold` and `mask` with `proctor tasks validate`"),
            )),
        }
    }

    async fn try_patch(&mut self, patch: &[u8]) -> Result<Result<(), String>, Stop> {
        let owner = self.brief.user.as_deref();
        let (handle, root) = (&self.handle, &self.workdir);
        match proctor_setup::apply_patch(handle, root, patch, owner).await {
            Ok(_) => Ok(Ok(())),
            Err(ApplyError::Patch(error)) => Ok(Err(error.to_string())),
            Err(ApplyError::Sandbox(error)) => Err(error.to_fault("applying a patch").into()),
        }
    }

    async fn initial_tree(&mut self) -> Result<Arc<dyn InitialTree>, Stop> {
        Ok(Arc::new(self.recorder.start_tree().await))
    }

    fn count_tokens(&self, messages: &[Message]) -> u64 {
        proctor_gateway::tokens::count_messages(messages)
    }

    fn exceeds_context_window(&self, counted: u64, estimated: u64, window: u64) -> bool {
        ContextWindowRules::shipped()
            .is_ok_and(|rules| rules.is_overflow_certain(counted, estimated, window))
    }
}

/// Passes a response on to the scaffold. A refusal by the model ends the trial instead.
fn stop_on_refusal(response: ModelResponse) -> Result<ModelResponse, Stop> {
    if response.refused {
        let said = response.extra.get("refusal").and_then(Value::as_str);
        return Err(Stop::Refused(truncate_text(said.unwrap_or(&response.content)).to_owned()));
    }
    Ok(response)
}

/// Maps a failed request to its effect on the trial; see the table in `docs/concepts/attribution.md`.
pub(crate) fn stop_from_error(error: RequestError, gateway: &TrialGateway) -> Stop {
    match error {
        RequestError::Budget(budget) => Stop::Budget(budget),
        RequestError::SharedBudget { scope, kind } => Stop::SharedBudget(scope, kind),
        RequestError::Cancelled => Stop::Cancelled,
        RequestError::Fault(fault) => Stop::Fault(fault),
        RequestError::Rejected { status, body, caused_by_model: true } => Stop::Refused(format!(
            "the endpoint returned status {status}: {}",
            truncate_text(&body)
        )),
        RequestError::Rejected { status, body, caused_by_model: false } => {
            Stop::Fault(gateway.rejection_fault(status, &body))
        }
    }
}

/// Returns the first 500 characters of a string.
fn truncate_text(text: &str) -> &str {
    match text.char_indices().nth(500) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
