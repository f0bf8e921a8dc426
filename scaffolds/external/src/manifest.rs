//! A manifest: everything that Proctor needs to know about a command-line agent, as data.

use std::collections::BTreeMap;

use proctor_bundles::BundleRecipe;
use proctor_types::{Api, ExitCause, RequestRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One command-line agent (see `docs/external.md`).
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
    /// The wire format of its requests.
    pub api: Api,
    /// How to build its bundle (`docs/bundles.md`). Absent: the program is in the task's image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleRecipe>,
    /// Whether this version is not covered by Proctor's tests (`proctor scaffold add NAME@VERSION`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untested: bool,
    /// How to start the agent.
    pub command: CommandLine,
    /// Environment variables in addition to the task's own, `PATH` and `HOME`. The values are templates. A template
    /// that contains `{%` and renders to nothing is omitted.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files to create below its private `HOME` before it starts.
    #[serde(default)]
    pub files: Vec<HomeFile>,
    /// The agent's own files in a task's repository.
    #[serde(default)]
    pub repository: RepositoryFiles,
    /// Which of its requests belong to the main conversation (`docs/budgets.md`).
    #[serde(default)]
    pub requests: RequestRules,
    /// How to stop the agent at a limit.
    #[serde(default)]
    pub stop: StopRules,
    /// The agent's own log.
    #[serde(default)]
    pub log: LogFiles,
    /// What its exit means, if the status is not enough. The first matching rule applies.
    #[serde(default)]
    pub exit: Vec<ExitRule>,
    /// Tool calls that end a conversation: their names, or texts in their arguments.
    #[serde(default)]
    pub submits: Vec<String>,
    /// Whether it can run as root.
    #[serde(default = "default_true")]
    pub root: bool,
    /// Seconds without a request or a busy process after which it is stopped as `idle`.
    #[serde(default = "default_idle_seconds")]
    #[schemars(range(min = 1.0, max = 86_400.0))]
    pub idle_seconds: f64,
    /// The keys that `[arms.settings]` may set, with their defaults.
    #[serde(default)]
    pub settings: Map<String, Value>,
}

/// `[command]`. All texts are templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandLine {
    /// The program and its arguments. An entry that contains `{%` and renders to nothing is omitted.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// Standard input. Put the prompt here or into a file: Linux limits arguments to 128 KiB.
    #[serde(default)]
    pub stdin: String,
    /// Its working directory.
    #[serde(default = "default_cwd")]
    pub cwd: String,
}

/// One entry of `[[files]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HomeFile {
    /// Path below `HOME`.
    #[schemars(length(min = 1))]
    pub path: String,
    /// Content (a template). A file whose template contains `{%` and renders to nothing is omitted.
    pub content: String,
    /// Whether the file is executable.
    #[serde(default)]
    pub executable: bool,
}

/// `[repository]`: what the agent reads of a task's repository by itself. Paths are relative to the work directory; they
/// also count in each folder above it, up to the root of its Git repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepositoryFiles {
    /// Files and folders with the agent's settings: permissions, hooks, limits, MCP servers. They are hidden from the
    /// agent unless the arm sets `repository_settings = "use"`.
    pub settings: Vec<String>,
    /// Files with knowledge about the repository. The agent always sees them, and the record names them.
    pub knowledge: Vec<String>,
}

/// `[stop]`. The three times together are at most 4.5 seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopRules {
    /// Seconds that the agent has to exit by itself after a request was rejected.
    #[schemars(range(min = 0.0, max = 4.5))]
    pub leave_seconds: f64,
    /// The signal that it gets then.
    pub signal: StopSignal,
    /// Seconds after the signal until all processes of the sandbox are killed.
    #[schemars(range(min = 0.0, max = 4.5))]
    pub grace_seconds: f64,
    /// Number of consecutive rejected requests after which the agent is considered to be in a loop. Rejections of the
    /// endpoint count too.
    #[schemars(range(min = 1, max = 10_000))]
    pub refusals: u64,
}

impl Default for StopRules {
    fn default() -> Self {
        Self { leave_seconds: 2.0, signal: StopSignal::Term, grace_seconds: 1.5, refusals: 25 }
    }
}

/// Signals by which programs are asked to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM, as `kill` sends.
    #[default]
    Term,
    /// SIGINT, as Ctrl-C sends.
    Int,
    /// SIGHUP, as a closed terminal sends.
    Hup,
    /// SIGQUIT, as Ctrl-\ sends.
    Quit,
}

impl StopSignal {
    /// The name for `kill`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Hup => "HUP",
            Self::Quit => "QUIT",
        }
    }
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogFiles {
    /// Globs below `HOME`. `**` matches across folders.
    pub files: Vec<String>,
    /// Maximum total bytes to keep.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub bytes: u64,
}

impl Default for LogFiles {
    fn default() -> Self {
        Self { files: Vec::new(), bytes: 64 << 20 }
    }
}

/// One entry of `[[exit]]`. All conditions must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRule {
    /// The trial's ending.
    pub means: Meaning,
    /// Exit statuses. Absent: any status, including that of a killed program.
    #[serde(default)]
    pub codes: Vec<i32>,
    /// Standard error contains one of these texts. Absent: any text. Standard output is not searched, because agents
    /// print the model's output there.
    #[serde(default)]
    pub output: Vec<String>,
    /// A JSON object of the agent has these members. The object is a line of standard output, or the content of `file`.
    /// Keys are dotted paths, and `*` in a value matches any text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub record: BTreeMap<String, String>,
    /// The JSON file below `HOME` that `record` is compared with, instead of standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How a trial ends whose CLI has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The work directory is the result.
    Submitted,
    /// The agent failed.
    Crashed,
    /// The agent was idle.
    Idle,
    /// The agent waited for a user to approve something.
    Approval,
    /// The model returned nothing.
    EmptyTurn,
    /// The agent was in a loop.
    Loop,
    /// The agent stopped for its own reason, such as its own turn limit.
    Finished,
}

impl Meaning {
    /// `None` for a submission.
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
