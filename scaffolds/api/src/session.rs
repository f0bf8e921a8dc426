use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use proctor_sandbox_api::SandboxHandle;
use proctor_types::{
    Answer, Ask, Budget, BudgetKind, BudgetScope, Fault, Layer, Message, TokenizerFile, Traffic,
};
use serde_json::{Map, Value};

use crate::{Material, StartTree};

/// What the scaffold may know about its task. No hidden test, no gold patch, no mask.
#[derive(Debug, Clone, PartialEq)]
pub struct Brief {
    /// The id of the task.
    pub task: String,
    /// The agent's task description.
    pub statement: String,
    /// Working directory of commands, an absolute path.
    pub workdir: String,
    /// Environment variables of every command.
    pub env: Vec<(String, String)>,
    /// The user of commands, if the task sets one.
    pub user: Option<String>,
    /// The time limit of a command.
    pub command_limit: Duration,
    /// The limits, if the arm announces them.
    pub announced: Option<Budget>,
    /// The endpoint's name for the model, if the arm has one.
    pub model: Option<String>,
    /// The model's context window in tokens, if known.
    pub context_window: Option<u64>,
    /// The context window in Proctor's own table of models, for a client that must be told one.
    pub listed_window: Option<u64>,
    /// The model's output limit in tokens, if the arm sets one.
    pub max_output_tokens: Option<u64>,
    /// For `gold` only: the gold patch. Absent for every scaffold that calls a model.
    pub gold: Option<String>,
    /// For `gold` only, for a Harbor task: the variables of `/solution/solve.sh`, which is the
    /// solution.
    pub solution: Option<Vec<(String, String)>>,
    /// For `replay` only: the trajectory to re-run.
    pub replay: Option<PathBuf>,
    /// How a client in its sandbox reaches the model, if the scaffold requested it.
    pub model_endpoint: Option<ModelEndpoint>,
    /// For `single-shot` only: what the benchmark provides for the task besides its statement.
    pub material: Option<Material>,
    /// The file that counts the model's tokens, if the arm names one.
    pub tokenizer: Option<TokenizerFile>,
    /// The arm's settings, as returned by [`Scaffold::settings`](crate::Scaffold::settings).
    pub settings: Map<String, Value>,
    /// For a trial that started as a fork of another one.
    pub fork: Option<ForkBrief>,
}

/// What a forked trial's conversation contains beyond its own prompts.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkBrief {
    /// The first messages of the other trial, if its conversation is copied.
    pub opening: Option<Vec<Message>>,
    /// A hint for the model, and the number of responses after which it is given.
    pub hint: Option<(u64, String)>,
}

/// The model, as a client in the sandbox reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// For example `http://127.0.0.1:34567`, without `/v1`.
    pub url: String,
    /// The client's API key: valid for this trial, and worthless elsewhere.
    pub token: String,
}

/// Why the session ended the loop. A scaffold passes it on unchanged.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// The trial's own limit.
    Budget(BudgetKind),
    /// A limit that the trial shares with others.
    SharedBudget(BudgetScope, BudgetKind),
    /// The endpoint rejected this trial's request; the reason.
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
    /// As in the model's call.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// What the model sees.
    pub shown: String,
    /// The complete output, if `shown` is cut.
    pub full: Option<Vec<u8>>,
    /// For a command that ended by itself.
    pub exit_status: Option<i32>,
    /// How long the call took.
    pub duration: Duration,
    /// The arguments could not be parsed; counted in the outcome.
    pub malformed: bool,
    /// Its edit, for a tool that can undo it.
    pub edited: Option<Edited>,
}

/// One edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Relative to the root of the sandbox.
    pub path: String,
    /// The content before. Absent: there was no file.
    pub before: Option<Vec<u8>>,
    /// The content after. Absent: the file's last edit was undone.
    pub after: Option<Vec<u8>>,
}

/// One trial, as its scaffold sees it.
#[async_trait]
pub trait Session: Send {
    /// What the scaffold may know about the task.
    fn brief(&self) -> &Brief;

    /// The sandbox, for acting in it. Its methods return a sandbox error only if the sandbox itself
    /// is broken; a failed command is a result.
    fn handle(&self) -> &Arc<SandboxHandle>;

    /// The sandbox of [`Scaffold::own_sandbox`](crate::Scaffold::own_sandbox), if the scaffold
    /// requested one.
    fn own_sandbox(&self) -> Option<&Arc<SandboxHandle>> {
        None
    }

    /// Ends the previous step (takes its snapshot, checks its limits), then calls the model. Each
    /// `Ok` is one step.
    async fn ask(&mut self, ask: &Ask) -> Result<Answer, Stop>;

    /// For a resumed trial: the recorded result of this call, if it is kept. Such a call is neither
    /// run nor recorded again. Call it before [`Session::tool_called`].
    ///
    /// # Errors
    /// The record has another call in this place.
    async fn recalled(&mut self, _call_id: &str, _name: &str) -> Result<Option<ToolDone>, Stop> {
        Ok(None)
    }

    /// Call it before the tool has any effect, so that it is recorded first.
    async fn tool_called(
        &mut self,
        call_id: &str,
        name: &str,
        arguments: Value,
    ) -> Result<(), Stop>;

    /// Call it once per call, when its result is known.
    async fn tool_returned(&mut self, done: ToolDone) -> Result<(), Stop>;

    /// Resolves when the trial cannot continue: a limit, a fault, a refusal. The scaffold then ends
    /// its client in the sandbox; how the client finishes no longer counts.
    async fn ending(&mut self);

    /// The traffic of the model endpoint, if the scaffold requested one.
    fn traffic(&self) -> Traffic;

    /// Stores a file as evidence beside the trajectory. `name` is a relative path.
    async fn keep(&mut self, name: &str, content: &[u8]) -> Result<(), Stop>;

    /// Records information that no other event has.
    async fn note(&mut self, note: Map<String, Value>) -> Result<(), Stop>;

    /// Applies a patch to the work directory from the host, with the same code as grading: for
    /// `gold`. A patch that does not apply is a set-up fault.
    async fn apply_patch(&mut self, patch: &str) -> Result<(), Stop>;

    /// Applies a patch like [`Session::apply_patch`]. One that does not apply changes nothing, and
    /// the reason is a result, because the patch is a model's.
    async fn try_patch(&mut self, _patch: &[u8]) -> Result<Result<(), String>, Stop> {
        Err(Fault::new(Layer::Setup, "this session cannot apply patches").into())
    }

    /// The work directory at the trial's start, from the record: no file is requested from the
    /// sandbox.
    async fn start_tree(&mut self) -> Result<Arc<dyn StartTree>, Stop> {
        Err(Fault::new(Layer::Setup, "this session has no initial tree").into())
    }

    /// Names files and directories that the scaffold hides from its client, by absolute path.
    /// Snapshots keep them as they were in the last snapshot: neither a step's tree nor the patch
    /// shows that they are gone. What the agent creates in their place is recorded as usual.
    async fn hide(&mut self, _paths: &[String]) -> Result<(), Stop> {
        Ok(())
    }

    /// Ends a step of a scaffold that calls no model (`replay`): takes its snapshot.
    async fn end_step(&mut self) -> Result<(), Stop>;

    /// Tokens of a message list, counted locally.
    fn count_tokens(&self, messages: &[Message]) -> u64;

    /// Whether a conversation certainly exceeds the context window: `counted` tokens by the
    /// endpoint's count and `estimated` more by ours, which may be wrong. In doubt the endpoint
    /// decides.
    fn overflows(&self, counted: u64, estimated: u64, window: u64) -> bool;
}
