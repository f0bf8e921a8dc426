use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::SandboxHandle;
use proctor_types::{
    Budget, BudgetKind, BudgetScope, Fault, FaultLayer, Message, ModelRequest, ModelResponse,
    TokenizerFile, Traffic,
};
use serde_json::{Map, Value};

use crate::{InitialTree, Material};

/// What the scaffold may know about its task. It never contains hidden tests, the gold patch or a
/// mask, except in the fields that are only for `gold`.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskBrief {
    /// The task's id.
    pub task: String,
    /// The task description for the agent.
    pub statement: String,
    /// The working directory of commands, as an absolute path.
    pub workdir: String,
    /// The environment variables of every command.
    pub env: Vec<(String, String)>,
    /// The user who runs commands, if the task sets one.
    pub user: Option<String>,
    /// The time limit for one command.
    pub command_timeout: Duration,
    /// The limits, if the arm announces them.
    pub announced_budget: Option<Budget>,
    /// The model's name at the endpoint, if the arm uses a model.
    pub model: Option<String>,
    /// The model's context window in tokens, if known.
    pub context_window: Option<u64>,
    /// The context window from Proctor's own model table, for a client that cannot do without one.
    pub listed_context_window: Option<u64>,
    /// The model's output limit in tokens, if the arm sets one.
    pub max_output_tokens: Option<u64>,
    /// Only for `gold`: the gold patch. Absent for every scaffold that calls a model.
    pub gold: Option<String>,
    /// Only for `gold` in a Harbor task: the environment variables for the reference solution,
    /// `/solution/solve.sh`.
    pub solution: Option<Vec<(String, String)>>,
    /// Only for `replay`: the path of the trajectory to re-run.
    pub replay: Option<PathBuf>,
    /// The model endpoint for a client in the sandbox, if the scaffold has one.
    pub model_endpoint: Option<ModelEndpoint>,
    /// Only for `single-shot`: the task data that the benchmark provides in addition to the
    /// statement.
    pub material: Option<Material>,
    /// The model's tokenizer file, if the arm specifies one.
    pub tokenizer: Option<TokenizerFile>,
    /// The arm's settings, as returned by
    /// [`Scaffold::resolve_settings`](crate::Scaffold::resolve_settings).
    pub settings: Map<String, Value>,
    /// What is known about the fork, if this trial was forked from another one.
    pub fork: Option<ForkContext>,
}

/// What a forked trial's conversation contains in addition to the scaffold's own prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkContext {
    /// The first messages of the original trial, if its conversation is copied.
    pub first_messages: Option<Vec<Message>>,
    /// The number of responses after which to give the model a hint, and the hint.
    pub hint: Option<(u64, String)>,
}

/// The model endpoint, as seen by a client in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// The base URL without `/v1`, for example `http://127.0.0.1:34567`.
    pub url: String,
    /// The client's API key, which is valid only for this trial and this endpoint.
    pub token: String,
}

/// Why the session ended the loop. Scaffolds propagate this value unchanged.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// A limit of the trial was reached.
    Budget(BudgetKind),
    /// A limit that the trial shares with others was reached.
    SharedBudget(BudgetScope, BudgetKind),
    /// The endpoint rejected one of this trial's requests. Contains the reason.
    Refused(String),
    /// The infrastructure failed, and the try is discarded.
    Fault(Fault),
    /// The run was interrupted.
    Cancelled,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The result of a tool call, to be recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FinishedToolCall {
    /// The id that the model gave the call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The output shown to the model.
    pub shown_output: String,
    /// The complete output, if `shown_output` is truncated.
    pub full_output: Option<Vec<u8>>,
    /// The exit status, if the tool ran a command that was not killed.
    pub exit_status: Option<i32>,
    /// The duration of the call.
    pub duration: Duration,
    /// Whether the arguments could not be parsed. Such calls are counted in the outcome.
    pub is_malformed: bool,
    /// The edit that the call made, if the tool supports undo.
    pub file_edit: Option<FileEdit>,
}

/// One edit to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The path, relative to the sandbox's root.
    pub path: String,
    /// The content before the edit; `None` if the file did not exist.
    pub old_content: Option<Vec<u8>>,
    /// The content after the edit; `None` if the edit was undone.
    pub new_content: Option<Vec<u8>>,
}

/// The interface between a scaffold and its trial.
#[async_trait]
pub trait Session: Send {
    /// Returns what the scaffold may know about the task.
    fn brief(&self) -> &TaskBrief;

    /// Returns the sandbox to act in. Its methods return an error only if the sandbox itself is
    /// broken; a failed command is a normal result.
    fn sandbox(&self) -> &Arc<SandboxHandle>;

    /// Returns the sandbox that the scaffold requested with
    /// [`Scaffold::own_sandbox`](crate::Scaffold::own_sandbox), if any.
    fn own_sandbox(&self) -> Option<&Arc<SandboxHandle>> {
        None
    }

    /// Ends the previous step by taking its snapshot and checking the limits, and then calls the
    /// model. Each `Ok` starts one step.
    async fn ask(&mut self, ask: &ModelRequest) -> Result<ModelResponse, Stop>;

    /// Returns the recorded result of this call, if the trial was resumed and the result was kept.
    /// Such a call must not be run or recorded again. Call this method before
    /// [`Session::record_tool_call`].
    ///
    /// # Errors
    /// Fails if the record contains a different call at this position.
    async fn recorded_result(
        &mut self,
        _call_id: &str,
        _name: &str,
    ) -> Result<Option<FinishedToolCall>, Stop> {
        Ok(None)
    }

    /// Records a call. Must be awaited before the tool has any effect, so that the record contains
    /// every call that had an effect.
    async fn record_tool_call(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop>;

    /// Records a call's result. Must be called exactly once per call.
    async fn record_tool_result(&mut self, result: FinishedToolCall) -> Result<(), Stop>;

    /// Resolves when the trial cannot continue because of a limit, a fault or a rejected request.
    /// The scaffold then stops its client in the sandbox, and how the client exits no longer
    /// matters.
    async fn wait_for_end(&mut self);

    /// Returns what went through the model endpoint, if the scaffold has one.
    fn traffic(&self) -> Traffic;

    /// Stores a file as evidence next to the trajectory. `name` is a relative path.
    async fn store_evidence(&mut self, name: &str, content: &[u8]) -> Result<(), Stop>;

    /// Records information that no other event contains.
    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop>;

    /// Applies a patch to the work directory from the host, with the same code as grading. `gold`
    /// uses this. If the patch does not apply, fails with a setup fault.
    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop>;

    /// Applies a patch like [`Session::apply_patch`]. If the patch does not apply, nothing changes,
    /// and the inner result contains the reason. This is not a fault, because the patch comes from
    /// a model.
    async fn try_patch(&mut self, _patch: &[u8]) -> Result<Result<(), String>, Stop> {
        Err(Fault::new(FaultLayer::Setup, "this session cannot apply patches").into())
    }

    /// Returns the state of the work directory at the trial's start. Reads it from the record
    /// instead of the sandbox.
    async fn initial_tree(&mut self) -> Result<Arc<dyn InitialTree>, Stop> {
        Err(Fault::new(FaultLayer::Setup, "this session has no initial tree").into())
    }

    /// Hides files and directories from the scaffold's client. `paths` are absolute. Snapshots keep
    /// them as they were in the last snapshot, so neither a step's tree nor the patch shows them as
    /// deleted. If the agent creates files in their place, those are recorded as usual.
    async fn hide(&mut self, _paths: &[String]) -> Result<(), Stop> {
        Ok(())
    }

    /// Ends a step and takes its snapshot, for a scaffold that calls no model (`replay`).
    async fn end_step(&mut self) -> Result<(), Stop>;

    /// Returns the number of tokens in a list of messages, counted locally.
    fn count_tokens(&self, messages: &[Message]) -> u64;

    /// Returns whether a conversation certainly exceeds the context window. `counted_tokens` is the
    /// endpoint's own token count for the first part. `estimated_tokens` is Proctor's count for the
    /// rest, which may be inaccurate. In case of doubt, returns `false`, so that the endpoint
    /// decides.
    fn exceeds_context_window(
        &self,
        counted_tokens: u64,
        estimated_tokens: u64,
        window: u64,
    ) -> bool;
}
