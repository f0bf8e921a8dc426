//! A row that summarizes one step of a trial.

use serde::Serialize;

/// A row that summarizes one step of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StepRow {
    /// The step's number, counted from 1. Step 0 is everything before the first response.
    pub number: u64,
    /// Seconds since the try began.
    pub at: f64,
    /// Seconds from the request to the end of the step's tool calls.
    pub seconds: f64,
    pub tool_seconds: f64,
    /// Seconds spent in requests to the endpoint, without waits.
    pub model_seconds: f64,
    /// Seconds spent in backoff and queues.
    pub waited_seconds: f64,
    /// Tokens.
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
    /// Whether Proctor estimated the tokens because the endpoint did not report them.
    pub estimated: bool,
    /// A summary of the step: for each call, the tool's name and the first words of the call.
    /// Without calls, the first words of the message.
    pub did: Vec<String>,
    /// Number of calls that the model requested and that the record does not show as run. 0 if the
    /// agent used its own tools, because these tools may have run the calls.
    pub not_run: u64,
    /// The id and the summary of each call that is not shown as run.
    #[serde(skip)]
    pub requested: Vec<(String, String)>,
    /// Whether a tool failed or a call could not be parsed.
    pub failed: bool,
    /// Whether the step ran tests, judging by its shell commands.
    pub tests: bool,
    /// Whether tests ran, according to the outputs of the step's commands. `None` if the outputs
    /// don't say so.
    pub ran_tests: Option<bool>,
    /// Number of new, changed and removed paths.
    pub changed: u64,
    /// Number of requests to the egress proxy, then how many of them the proxy denied.
    pub requests: u64,
    pub denied: u64,
    /// Number of failed requests to the endpoint.
    pub resends: u64,
    /// Number of tries of the trial that a fault ended during the step.
    pub faults: u64,
    /// Whether this is a request whose response never arrived. It is not a step.
    pub is_unanswered: bool,
    /// The id of the sub-agent's conversation that the step belongs to. `None` if the step belongs
    /// to the agent itself, or if the record doesn't say.
    pub conversation: Option<String>,
    /// The id of the conversation that started the sub-agent, if the client names it.
    pub parent: Option<String>,
    /// Hashes of the step's actions and of the results that it received. If two steps have equal
    /// hashes, their actions or results are the same.
    #[serde(skip)]
    pub action_hash: u64,
    #[serde(skip)]
    pub result_hash: u64,
}
