//! A manifest: everything that Proctor needs to know about a command-line agent, as data.

use std::collections::BTreeMap;

use proctor_bundles::BundleRecipe;
use proctor_types::{Api, ExitCause, RequestRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One command-line agent. `docs/external.md` says how to write one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What configurations and reports call it.
    #[schemars(length(min = 1), example = &"my-cli")]
    pub name: String,
    /// The exact version of the agent.
    #[schemars(length(min = 1), example = &"1.2.3")]
    pub version: String,
    /// One line for lists.
    #[serde(default)]
    pub says: String,
    /// The wire format that it speaks.
    pub api: Api,
    /// How its bundle is made (`docs/bundles.md`). Absent: the image has the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleRecipe>,
    /// Proctor's tests have not run this version (`proctor scaffold add NAME@VERSION`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untested: bool,
    /// How it is started.
    pub command: CommandLine,
    /// Variables beside the task's own, `PATH` and `HOME`; templates. One that has a `{%` and renders to nothing is left
    /// out.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Files that are laid below its private `HOME` before it starts.
    #[serde(default)]
    pub files: Vec<HomeFile>,
    /// Its own files in a task's repository.
    #[serde(default)]
    pub repository: RepositoryFiles,
    /// Which of its requests are the main conversation (`docs/budgets.md`).
    #[serde(default)]
    pub requests: RequestRules,
    /// How it is ended at a limit.
    #[serde(default)]
    pub stop: StopRules,
    /// What it leaves behind as its own log.
    #[serde(default)]
    pub log: LogFiles,
    /// What its exit means, where the status alone does not say it. The first rule that holds counts.
    #[serde(default)]
    pub exit: Vec<ExitRule>,
    /// Calls that end a conversation: their names, or texts in their arguments.
    #[serde(default)]
    pub submits: Vec<String>,
    /// It may run as root.
    #[serde(default = "yes")]
    pub root: bool,
    /// Seconds without a request and without a process at work after which it is ended as `idle`.
    #[serde(default = "idle_seconds")]
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
    /// The program and its arguments. An entry that has a `{%` and renders to nothing is left out.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// Its standard input. The prompt belongs here or into a file: Linux limits an argument to 128 KiB.
    #[serde(default)]
    pub stdin: String,
    /// Where it starts.
    #[serde(default = "workdir")]
    pub cwd: String,
}

/// One of `[[files]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HomeFile {
    /// Below `HOME`.
    #[schemars(length(min = 1))]
    pub path: String,
    /// A template. A file whose template has a `{%` and renders to nothing is left out.
    pub content: String,
    /// It is a program.
    #[serde(default)]
    pub executable: bool,
}

/// `[repository]`: what the agent reads of a task's repository by itself. Paths are relative to the work directory; they
/// also count in each folder above it, up to the root of its Git repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepositoryFiles {
    /// Files and folders with its settings: permissions, hooks, limits, MCP servers. An arm hides them from the agent unless
    /// it sets `repository_settings = "use"`.
    pub settings: Vec<String>,
    /// Files with knowledge about the repository. The agent always sees them, and the record names them.
    pub knowledge: Vec<String>,
}

/// `[stop]`. The three times together are at most 4.5 seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopRules {
    /// Seconds that it has to go by itself once a request was refused.
    #[schemars(range(min = 0.0, max = 4.5))]
    pub leave_seconds: f64,
    /// What it is sent then.
    pub signal: StopSignal,
    /// Seconds until it and every other process of the sandbox are killed.
    #[schemars(range(min = 0.0, max = 4.5))]
    pub grace_seconds: f64,
    /// Requests in a row that were turned away, by the endpoint too, after which it counts as in a loop.
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
    /// As `kill` sends it.
    #[default]
    Term,
    /// As ^C sends it.
    Int,
    /// As a terminal that goes away sends it.
    Hup,
    /// As ^\ sends it.
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
    /// Globs below `HOME`; `**` crosses folders.
    pub files: Vec<String>,
    /// Bytes that are kept of all of them together.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub bytes: u64,
}

impl Default for LogFiles {
    fn default() -> Self {
        Self { files: Vec::new(), bytes: 64 << 20 }
    }
}

/// One of `[[exit]]`: all of its conditions must hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRule {
    /// How the trial ends then.
    pub means: Meaning,
    /// Exit statuses. Absent: any, also that of a program that was ended from outside.
    #[serde(default)]
    pub codes: Vec<i32>,
    /// Standard error contains one of these texts. Absent: any. Standard output is not searched, since agents print the
    /// model's words there.
    #[serde(default)]
    pub output: Vec<String>,
    /// A JSON record of the agent's own has these members. Keys are dotted paths, `*` in a value stands for any text. It
    /// is a line of standard output that is a JSON object, or the whole of `file`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub record: BTreeMap<String, String>,
    /// The JSON file below `HOME` that `record` is compared with, in place of standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// How a trial ends whose CLI has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// Its work directory is its answer.
    Submitted,
    /// It failed.
    Crashed,
    /// It did nothing any more.
    Idle,
    /// It waited for a person to allow something.
    Approval,
    /// The model answered nothing.
    EmptyTurn,
    /// It repeated itself.
    Loop,
    /// It came to an end of its own, such as its own limit on turns.
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

fn yes() -> bool {
    true
}

fn idle_seconds() -> f64 {
    600.0
}

fn workdir() -> String {
    "{{ workdir }}".into()
}
