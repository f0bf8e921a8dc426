//! What a viewer serves: the matrix of a run, a trial as a timeline, one step, one file.

use minijinja::Error;
use serde::Serialize;

use crate::templates::fill;

/// One step of a trial, on a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StepRow {
    /// Counted from 1; 0 is what comes before the first answer.
    pub number: u64,
    /// Since the try began, in seconds.
    pub at: f64,
    /// From the request to the end of its tools.
    pub seconds: f64,
    pub tool_seconds: f64,
    /// Tokens.
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
    /// What was done: the tools with the first words of their calls, or the first words of the message.
    pub did: Vec<String>,
    /// Some tool ended with a failure, or its call could not be read.
    pub failed: bool,
    /// Paths that are new, changed or gone.
    pub changed: u64,
    /// Requests to the egress proxy, and those that it refused.
    pub requests: u64,
    pub denied: u64,
    /// Sends to the endpoint that failed.
    pub resends: u64,
}

/// One step, whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    pub row: StepRow,
    pub message: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    pub urls: Vec<Url>,
    /// Lines of sends that failed and of what ended the trial.
    pub notes: Vec<String>,
    /// What the step changed in the work directory.
    pub diff: String,
}

/// A tool call with what it gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Call {
    pub name: String,
    pub arguments: String,
    /// Absent: it never returned.
    pub shown: Option<String>,
    /// `shown` is not all of it.
    pub cut: bool,
    pub exit_status: Option<i32>,
    pub seconds: Option<f64>,
    pub malformed: bool,
}

/// A request to the egress proxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Url {
    pub method: String,
    pub url: String,
    pub decision: String,
    pub why: String,
}

/// A test that was expected to pass, with the lines of the log that tell of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TestLine {
    /// `F2P` or `P2P`.
    pub kind: &'static str,
    pub id: String,
    pub status: String,
    pub passed: bool,
    pub log: String,
}

/// A trial, as its page and the terminal show it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Trial {
    pub run: String,
    pub task: String,
    pub arm: String,
    pub attempt: u32,
    /// How it ended, in words; empty while it has not.
    pub outcome: String,
    pub resolved: Option<bool>,
    pub reason: String,
    pub why: Vec<String>,
    pub integrity: String,
    /// Kind, what was seen, steps.
    pub evidence: Vec<(String, String, Vec<u64>)>,
    pub passed_rate: Option<f64>,
    pub steps: Vec<StepRow>,
    pub input: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
    pub wall_seconds: f64,
    /// The budget's limits, in words.
    pub limits: Vec<String>,
    pub tests: Vec<TestLine>,
    pub damage: Vec<String>,
    /// Its files.
    pub files: Vec<String>,
}

/// A cell of the matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Below the viewer's address.
    pub href: String,
    pub attempt: u32,
    pub word: String,
    /// `yes`, `no` or `open`.
    pub class: &'static str,
    pub detail: String,
}

/// A run: a row a task, a column an arm.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    pub run: String,
    /// Name, and what it reached.
    pub arms: Vec<(String, String)>,
    pub rows: Vec<(String, Vec<Vec<Cell>>)>,
    pub findings: Vec<String>,
}

#[derive(Serialize)]
struct MatrixFilling<'a> {
    runs: &'a [Matrix],
    links: &'a Links<'a>,
}

#[derive(Serialize)]
struct TrialFilling<'a> {
    trial: &'a Trial,
    links: &'a Links<'a>,
    patch: &'a str,
    gold: &'a str,
}

#[derive(Serialize)]
struct StepFilling<'a> {
    step: &'a Step,
    trial: &'a str,
    more: bool,
    links: &'a Links<'a>,
}

/// Where a page's links lead: to a server's pages, or to files.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Links<'a> {
    /// What comes before every address; ends in `/`, or is empty.
    pub root: &'a str,
    /// The first page, behind that.
    pub home: &'a str,
    /// The trial's own address, without its ending.
    pub here: &'a str,
    /// What an address of a page ends in.
    pub ending: &'a str,
}

/// # Errors
/// A template that names what is not there. No content of a run can cause one; so it is for all three.
pub fn matrix(runs: &[Matrix], links: &Links<'_>) -> Result<String, Error> {
    fill("matrix.html", MatrixFilling { runs, links })
}

/// The timeline. `patch` is the final diff, `gold` what it is seen beside.
///
/// # Errors
/// See [`matrix`].
pub fn trial(trial: &Trial, links: &Links<'_>, patch: &str, gold: &str) -> Result<String, Error> {
    fill("trial.html", TrialFilling { trial, links, patch, gold })
}

/// `trial` is its name, `more` whether another step follows.
///
/// # Errors
/// See [`matrix`].
pub fn step(step: &Step, trial: &str, more: bool, links: &Links<'_>) -> Result<String, Error> {
    fill("step.html", StepFilling { step, trial, more, links })
}
