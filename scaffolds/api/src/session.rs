use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::SandboxHandle;
use proctor_types::{
    Answer, Ask, Budget, BudgetKind, BudgetScope, Fault, Layer, Message, TokenizerFile, Traffic,
};
use serde_json::{Map, Value};

use crate::{Material, StartTree};

/// What the scaffold may know of its task. No hidden test, no gold, no mask.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// The id of the task.
    pub task: String,
    /// What the agent is asked to do.
    pub statement: String,
    /// Where commands start, an absolute path.
    pub workdir: String,
    /// Environment variables of every command.
    pub env: Vec<(String, String)>,
    /// Whom commands run as, where the task says it.
    pub user: Option<String>,
    /// The longest that one command may run.
    pub command_limit: Duration,
    /// The limits, where the arm announces them.
    pub announced: Option<Budget>,
    /// What the endpoint calls the model, where the arm has one.
    pub model: Option<String>,
    /// The context window of the model in tokens, where known.
    pub context_window: Option<u64>,
    /// The context window that Proctor's own table of models has, for a client that has to be told one.
    pub listed_window: Option<u64>,
    /// The output limit of the model in tokens, where the arm sets one.
    pub max_output_tokens: Option<u64>,
    /// For `gold` only: the gold patch. Absent for every scaffold that asks a model.
    pub gold: Option<String>,
    /// For `gold` only, of a Harbor task: the variables of `/solution/solve.sh`, which is the solution.
    pub solution: Option<Vec<(String, String)>>,
    /// For `replay` only: the trajectory to re-run.
    pub replay: Option<PathBuf>,
    /// Where a client in its sandbox finds the model, for a scaffold that asked for it.
    pub model_endpoint: Option<ModelEndpoint>,
    /// For `single-shot` only: what the benchmark tells of the task besides its statement.
    pub material: Option<Material>,
    /// The file that counts the model's tokens, where the arm names one.
    pub tokenizer: Option<TokenizerFile>,
    /// The arm's settings, as [`Scaffold::settings`](crate::Scaffold::settings) gave them.
    pub settings: Map<String, Value>,
    /// For a trial that began as a fork of another one.
    pub fork: Option<ForkBrief>,
}

/// What the conversation of a forked trial has that its own prompts do not say.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkBrief {
    /// The first messages of the other trial, where its conversation goes along.
    pub opening: Option<Vec<Message>>,
    /// After so many answers the model is told this.
    pub hint: Option<(u64, String)>,
}

/// The model, as a client in the sandbox reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// Such as `http://127.0.0.1:34567`, without `/v1`.
    pub url: String,
    /// What the client gives as its API key: good for this trial, and worth nothing elsewhere.
    pub token: String,
}

/// Why the session ended the loop. A scaffold passes it on unchanged.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// A limit of the trial's own.
    Budget(BudgetKind),
    /// A limit that the trial shares with others.
    SharedBudget(BudgetScope, BudgetKind),
    /// The endpoint rejected this trial's request, and why.
    Refused(String),
    /// Infrastructure failed: the try is discarded.
    Fault(Fault),
    /// The run was interrupted.
    Cancelled,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A finished tool call, for the record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolDone {
    /// As the model's call has it.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// What the model is shown.
    pub shown: String,
    /// The whole output, where `shown` is cut.
    pub full: Option<Vec<u8>>,
    /// Of a command that ended by itself.
    pub exit_status: Option<i32>,
    /// How long the call took.
    pub duration: Duration,
    /// The arguments could not be read; counted in the outcome.
    pub malformed: bool,
    /// What it edited, for a tool that can undo it.
    pub edited: Option<Edited>,
}

/// One edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// From the root of the sandbox.
    pub path: String,
    /// Its content before. Absent: there was no file.
    pub before: Option<Vec<u8>>,
    /// Its content after. Absent: the last edit of the file was undone.
    pub after: Option<Vec<u8>>,
}

/// One trial, as its scaffold sees it.
#[async_trait]
pub trait Session: Send {
    /// What the scaffold may know of the task.
    fn brief(&self) -> &Brief;

    /// The sandbox, for acting in it. Its methods fail with a sandbox error only when the sandbox itself is
    /// broken; a command that fails is a result.
    fn handle(&self) -> &Arc<SandboxHandle>;

    /// The sandbox of [`Scaffold::own_sandbox`](crate::Scaffold::own_sandbox), for a scaffold that asked for one.
    fn own_sandbox(&self) -> Option<&Arc<SandboxHandle>> {
        None
    }

    /// Ends the step before (its snapshot is taken, its limits are checked), then asks the model.
    /// Each `Ok` is one step.
    async fn ask(&mut self, ask: &Ask) -> Result<Answer, Stop>;

    /// For a trial that goes on from its record: what came of this call, where that stands. Such a call is neither
    /// run nor recorded again. To be asked before [`Session::tool_called`].
    ///
    /// # Errors
    /// The record has another call in this place.
    async fn recalled(&mut self, _call_id: &str, _name: &str) -> Result<Option<ToolDone>, Stop> {
        Ok(None)
    }

    /// To be called before the tool's effect begins, and recorded before it is relied on.
    async fn tool_called(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop>;

    /// To be called once for each call, when its result is known.
    async fn tool_returned(&mut self, done: ToolDone) -> Result<(), Stop>;

    /// Comes when the trial cannot go on: a limit, a fault, a refusal. Whoever runs a client in the
    /// sandbox ends it then; what it finishes as does not count any more.
    async fn ending(&mut self);

    /// What passed the model endpoint, for a scaffold that asked for one.
    fn traffic(&self) -> Traffic;

    /// Keeps a file as evidence beside the trajectory. `name` is a relative path.
    async fn keep(&mut self, name: &str, content: &[u8]) -> Result<(), Stop>;

    /// Anything worth keeping that no other event says.
    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop>;

    /// Lays a patch over the work directory from the host, by the same code that grading uses: for
    /// `gold`. A patch that does not apply is a setup fault.
    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop>;

    /// Lays a patch as [`Session::apply_patch`] does. One that does not apply changes nothing, and why is a result: the patch
    /// is a model's.
    async fn try_patch(&mut self, _patch: &[u8]) -> Result<Result<(), String>, Stop> {
        Err(Fault::new(Layer::Setup, "this session lays no patches").into())
    }

    /// The work directory as the trial began, from the record: no file of it is asked of the sandbox.
    async fn start_tree(&mut self) -> Result<Arc<dyn StartTree>, Stop> {
        Err(Fault::new(Layer::Setup, "this session keeps no tree").into())
    }

    /// Names files and folders that the scaffold moves out of its client's sight, by absolute path. Snapshots keep
    /// them as they were in the last snapshot: neither a step's tree nor the patch shows that they are gone. What the
    /// agent creates in their place is recorded as usual.
    async fn hide(&mut self, _paths: &[String]) -> Result<(), Stop> {
        Ok(())
    }

    /// Ends a step of a scaffold that asks no model (`replay`): takes its snapshot.
    async fn end_step(&mut self) -> Result<(), Stop>;

    /// Tokens that a message list will cost, by local count.
    fn count_tokens(&self, messages: &[Message]) -> u64;

    /// Whether a conversation certainly passes the context window: `counted` tokens by the endpoint's count and
    /// `estimated` more by ours, which may be wrong. In doubt the endpoint decides.
    fn overflows(&self, counted: u64, estimated: u64, window: u64) -> bool;
}
