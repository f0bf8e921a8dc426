//! The format of manifests, which contain everything that Proctor needs to know about a
//! command-line agent.

use std::collections::BTreeMap;

use proctor_bundles::BundleRecipe;
use proctor_types::{Api, ExitCause, RequestRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One command-line agent (see `docs/reference/external.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The agent's name in configurations and reports.
    #[schemars(length(min = 1), example = &"my-cli")]
    pub name: String,
    /// The exact version of the agent.
    #[schemars(length(min = 1), example = &"1.2.3")]
    pub version: String,
    /// A one-line description for lists.
    #[serde(default)]
    pub says: String,
    /// The wire format of the agent's requests.
    pub api: Api,
    /// How to build the agent's bundle (`docs/reference/bundles.md`). If absent, the task's image must
    /// contain the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleRecipe>,
    /// Whether Proctor's tests have never run this version (`proctor scaffold add NAME@VERSION`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untested: bool,
    /// How to start the agent.
    pub command: CommandLine,
    /// Environment variables in addition to the task's own, `PATH` and `HOME`. The values are
    /// templates. If a template contains `{%` and the result is empty, the variable is left out.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files to create in the agent's private `HOME` before it starts.
    #[serde(default)]
    pub files: Vec<HomeFile>,
    /// Files for the agent in a task's repository.
    #[serde(default)]
    pub repository: RepositoryFiles,
    /// Rules for which of the agent's requests belong to the main conversation (`docs/concepts/budgets.md`).
    #[serde(default)]
    pub requests: RequestRules,
    /// How to stop the agent at a limit.
    #[serde(default)]
    pub stop: StopRules,
    /// The agent's own log.
    #[serde(default)]
    pub log: LogFiles,
    /// Rules for what the agent's exit means, if the exit status does not show it. The first rule
    /// that matches applies.
    #[serde(default)]
    pub exit: Vec<ExitRule>,
    /// Tool calls that end a conversation, by name or by a string in their arguments.
    #[serde(default)]
    pub submits: Vec<String>,
    /// Whether the agent can run as root.
    #[serde(default = "default_true")]
    pub root: bool,
    /// The agent is stopped as `idle` after this many seconds without a request or a busy process.
    #[serde(default = "default_idle_seconds")]
    #[schemars(range(min = 1.0, max = 86_400.0))]
    pub idle_seconds: f64,
    /// The keys that `[arms.settings]` may set, with their defaults.
    #[serde(default)]
    pub settings: Map<String, Value>,
}

/// The `[command]` table. All strings are templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandLine {
    /// The program and its arguments. If an entry contains `{%` and the result is empty, it is left
    /// out.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// Standard input. Put the prompt here or into a file, because Linux limits arguments to 128
    /// KiB.
    #[serde(default)]
    pub stdin: String,
    /// The working directory of the agent.
    #[serde(default = "default_cwd")]
    pub cwd: String,
}

/// An entry of `[[files]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HomeFile {
    /// The path of the file, relative to `HOME`.
    #[schemars(length(min = 1))]
    pub path: String,
    /// The content, as a template. If the template contains `{%` and the result is empty, the file
    /// is left out.
    pub content: String,
    /// Whether to make the file executable.
    #[serde(default)]
    pub executable: bool,
}

/// The `[repository]` table: what the agent reads from a task's repository by itself. Paths are
/// relative to the work directory. They also apply in each parent folder, up to the root of the Git
/// repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepositoryFiles {
    /// Files and folders with settings for the agent: permissions, hooks, limits, MCP servers. They
    /// are hidden from the agent unless the arm sets `repository_settings = "use"`.
    pub settings: Vec<String>,
    /// Files with knowledge about the repository. The agent always sees them, and the record lists
    /// those that exist.
    pub knowledge: Vec<String>,
}

/// The `[stop]` table. `leave_seconds` and `grace_seconds` may add up to at most 4.5 seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopRules {
    /// How many seconds the agent has to exit by itself after a request was rejected.
    #[schemars(range(min = 0.0, max = 4.5))]
    pub leave_seconds: f64,
    /// The signal to send if the agent has not exited after `leave_seconds`.
    pub signal: StopSignal,
    /// How many seconds after the signal all processes in the sandbox are killed.
    #[schemars(range(min = 0.0, max = 4.5))]
    pub grace_seconds: f64,
    /// How many consecutive requests must be rejected before the agent counts as looping. Requests
    /// that the endpoint rejects count too.
    #[schemars(range(min = 1, max = 10_000))]
    pub refusals: u64,
}

impl Default for StopRules {
    fn default() -> Self {
        Self { leave_seconds: 2.0, signal: StopSignal::Term, grace_seconds: 1.5, refusals: 25 }
    }
}

/// Signals that ask a program to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM, which `kill` sends.
    #[default]
    Term,
    /// SIGINT, which Ctrl-C sends.
    Int,
    /// SIGHUP, which a closed terminal sends.
    Hup,
    /// SIGQUIT, which Ctrl-\ sends.
    Quit,
}

impl StopSignal {
    /// Returns the signal's name, as `kill` expects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Hup => "HUP",
            Self::Quit => "QUIT",
        }
    }
}

/// The `[log]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogFiles {
    /// Globs for the log files, relative to `HOME`. `**` matches across folders.
    pub files: Vec<String>,
    /// Maximum total size of the log to keep, in bytes.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub bytes: u64,
}

impl Default for LogFiles {
    fn default() -> Self {
        Self { files: Vec::new(), bytes: 64 << 20 }
    }
}

/// An entry of `[[exit]]`. The rule matches if all its conditions hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRule {
    /// How the trial ended if the rule matches.
    pub means: Meaning,
    /// Exit statuses of the agent. If absent, any status matches, even the status of a killed
    /// program.
    #[serde(default)]
    pub codes: Vec<i32>,
    /// Strings, at least one of which standard error must contain. If absent, any output matches.
    /// Standard output is not searched, because agents print the model's output there.
    #[serde(default)]
    pub output: Vec<String>,
    /// Members that a JSON object from the agent must have. The object is a line of standard
    /// output, or the content of `file`. Keys are dotted paths, and `*` in a value matches any
    /// text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub record: BTreeMap<String, String>,
    /// A JSON file, relative to `HOME`, to compare with `record` in place of standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How a trial ends after its agent has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The agent submitted the work directory.
    Submitted,
    /// The agent failed.
    Crashed,
    /// The agent was idle.
    Idle,
    /// The agent waited for a user's approval.
    Approval,
    /// The model returned an empty response.
    EmptyTurn,
    /// The agent was in a loop.
    Loop,
    /// The agent stopped for its own reason, such as its own turn limit.
    Finished,
}

impl Meaning {
    /// Returns the cause of the exit; `None` for a submission.
    pub fn cause(self) -> Option<ExitCause> {
        match self {
            Self::Submitted => None,
            Self::Crashed => Some(ExitCause::Crashed),
            Self::Idle => Some(ExitCause::Idle),
            Self::Approval => Some(ExitCause::Approval),
            Self::EmptyTurn => Some(ExitCause::EmptyTurn),
            Self::Loop => Some(ExitCause::Loop),
            Self::Finished => Some(ExitCause::Finished),
        }
    }
}

fn default_true() -> bool {
    true
}

fn default_idle_seconds() -> f64 {
    600.0
}

fn default_cwd() -> String {
    "{{ workdir }}".into()
}
