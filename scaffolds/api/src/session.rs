use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::SandboxHandle;
use proctor_types::{
    Budget, BudgetKind, BudgetScope, Fault, Layer, Message, ModelRequest, ModelResponse,
    TokenizerFile, Traffic,
};
use serde_json::{Map, Value};

use crate::{InitialTree, Material};

/// What the scaffold may know about its task. Never contains hidden tests, the gold patch or a
/// mask, except for the fields reserved for `gold`.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// The task's id.
    pub task: String,
    /// The task description for the agent.
    pub statement: String,
    /// Absolute path of the working directory of commands.
    pub workdir: String,
    /// Environment variables of every command.
    pub env: Vec<(String, String)>,
    /// The user of commands, if the task sets one.
    pub user: Option<String>,
    /// The time limit of one command.
    pub command_limit: Duration,
    /// The limits, if the arm announces them.
    pub announced: Option<Budget>,
    /// The endpoint's name for the model, if the arm uses a model.
    pub model: Option<String>,
    /// The model's context window in tokens, if known.
    pub context_window: Option<u64>,
    /// The context window from Proctor's model table, for a client that requires one.
    pub listed_window: Option<u64>,
    /// The model's output limit in tokens, if the arm sets one.
    pub max_output_tokens: Option<u64>,
    /// For `gold` only: the gold patch. Absent for every scaffold that calls a model.
    pub gold: Option<String>,
    /// For `gold` only, for a Harbor task: the environment variables of `/solution/solve.sh`, the
    /// reference solution.
    pub solution: Option<Vec<(String, String)>>,
    /// For `replay` only: the trajectory to re-run.
    pub replay: Option<PathBuf>,
    /// The model endpoint for a client in the sandbox, if the scaffold requested one.
    pub model_endpoint: Option<ModelEndpoint>,
    /// For `single-shot` only: the task data that the benchmark provides besides the statement.
    pub material: Option<Material>,
    /// The tokenizer file for the model, if the arm names one.
    pub tokenizer: Option<TokenizerFile>,
    /// The arm's settings, as returned by [`Scaffold::resolve_settings`](crate::Scaffold::resolve_settings).
    pub settings: Map<String, Value>,
    /// Set if the trial was forked from another one.
    pub fork: Option<ForkBrief>,
}

/// What the conversation of a forked trial contains besides the scaffold's own prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkBrief {
    /// The first messages of the other trial, if its conversation is copied.
    pub opening: Option<Vec<Message>>,
    /// A hint for the model, and the number of responses after which it is given.
    pub hint: Option<(u64, String)>,
}

/// The model endpoint as a client in the sandbox reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// The base URL without `/v1`, for example `http://127.0.0.1:34567`.
    pub url: String,
    /// The client's API key. Valid only for this trial and this endpoint.
    pub token: String,
}

/// Why the session ended the loop. Scaffolds propagate it unchanged.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// A limit of the trial itself was reached.
    Budget(BudgetKind),
    /// A limit that the trial shares with others was reached.
    SharedBudget(BudgetScope, BudgetKind),
    /// The endpoint rejected a request of this trial, with the reason.
    Refused(String),
    /// The infrastructure failed. The try is discarded.
    Fault(Fault),
    /// The run was interrupted.
    Cancelled,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A finished tool call to record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FinishedToolCall {
    /// The id from the model's call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The output shown to the model.
    pub shown: String,
    /// The complete output, if `shown` is truncated.
    pub full: Option<Vec<u8>>,
    /// The exit status of a command that was not killed.
    pub exit_status: Option<i32>,
    /// The duration of the call.
    pub duration: Duration,
    /// The arguments could not be parsed. Counted in the outcome.
    pub malformed: bool,
    /// The edit made by a tool that supports undo.
    pub edited: Option<FileEdit>,
}

/// One edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Path relative to the root of the sandbox.
    pub path: String,
    /// The content before the edit. `None` if the file did not exist.
    pub before: Option<Vec<u8>>,
    /// The content after the edit. `None` if the edit was undone.
    pub after: Option<Vec<u8>>,
}

/// The interface between a scaffold and its trial.
#[async_trait]
pub trait Session: Send {
    /// Returns what the scaffold may know about the task.
    fn brief(&self) -> &Brief;

    /// Returns the sandbox to act in. Its methods return a sandbox error only if the sandbox itself
    /// is broken; a failed command is a normal result.
    fn sandbox(&self) -> &Arc<SandboxHandle>;

    /// Returns the sandbox from [`Scaffold::own_sandbox`](crate::Scaffold::own_sandbox), if the
    /// scaffold requested one.
    fn own_sandbox(&self) -> Option<&Arc<SandboxHandle>> {
        None
    }

    /// Ends the previous step (takes its snapshot and checks the limits), then calls the model.
    /// Each `Ok` starts one step.
    async fn ask(&mut self, ask: &ModelRequest) -> Result<ModelResponse, Stop>;

    /// Returns the recorded result of this call if the trial was resumed and the result was kept.
    /// Such a call must be neither run nor recorded again. Call this before
    /// [`Session::record_tool_call`].
    ///
    /// # Errors
    /// Returns an error if the record has a different call at this position.
    async fn recorded_result(
        &mut self,
        _call_id: &str,
        _name: &str,
    ) -> Result<Option<FinishedToolCall>, Stop> {
        Ok(None)
    }

    /// Records a call. Must be awaited before the tool has any effect, so that the record comes
    /// first.
    async fn record_tool_call(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop>;

    /// Records a call's result. Must be called exactly once per call.
    async fn record_tool_result(&mut self, done: FinishedToolCall) -> Result<(), Stop>;

    /// Resolves when the trial cannot continue because of a limit, a fault or a rejected request.
    /// The scaffold then stops its client in the sandbox. How the client exits no longer matters.
    async fn wait_for_end(&mut self);

    /// Returns the traffic of the model endpoint, if the scaffold requested one.
    fn traffic(&self) -> Traffic;

    /// Stores a file as evidence beside the trajectory. `name` is a relative path.
    async fn store_evidence(&mut self, name: &str, content: &[u8]) -> Result<(), Stop>;

    /// Records information that no other event contains.
    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop>;

    /// Applies a patch to the work directory from the host, with the same code as grading. Used by
    /// `gold`. A patch that does not apply is a set-up fault.
    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop>;

    /// Applies a patch like [`Session::apply_patch`]. If it does not apply, nothing changes and the
    /// inner result contains the reason: the patch comes from a model, so this is not a fault.
    async fn try_patch(&mut self, _patch: &[u8]) -> Result<Result<(), String>, Stop> {
        Err(Fault::new(Layer::Setup, "this session cannot apply patches").into())
    }

    /// Returns the work directory at the trial's start, read from the record instead of the
    /// sandbox.
    async fn initial_tree(&mut self) -> Result<Arc<dyn InitialTree>, Stop> {
        Err(Fault::new(Layer::Setup, "this session has no initial tree").into())
    }

    /// Hides files and directories from the scaffold's client. Paths are absolute. Snapshots keep
    /// them as they were in the last snapshot, so neither a step's tree nor the patch shows them as
    /// deleted. Files that the agent creates in their place are recorded as usual.
    async fn hide(&mut self, _paths: &[String]) -> Result<(), Stop> {
        Ok(())
    }

    /// Ends a step and takes its snapshot, for a scaffold that calls no model (`replay`).
    async fn end_step(&mut self) -> Result<(), Stop>;

    /// Returns the number of tokens in a message list, counted locally.
    fn count_tokens(&self, messages: &[Message]) -> u64;

    /// Returns whether a conversation certainly exceeds the context window. `counted` is the
    /// endpoint's own token count of one part. `estimated` is our count of the rest, which may be
    /// wrong. If in doubt, this returns false and the endpoint decides.
    fn exceeds_context_window(&self, counted: u64, estimated: u64, window: u64) -> bool;
}
