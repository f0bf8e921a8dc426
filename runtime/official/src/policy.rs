//! What makes one benchmark's grading differ from another's: `configs/benchmarks/policies/*.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    RowText, Standings,
    parsers::{Edition, ParserName},
};

/// The grading rules of one benchmark at one version of its harness.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfficialPolicy {
    /// As in `task.benchmark.name`.
    pub benchmark: String,
    /// Of the harness: a release, or the commit of one that has none.
    pub version: String,
    /// Other names of the same version.
    #[serde(default)]
    pub also_named: Vec<String>,
    /// Taken where a task names no version. One policy of each benchmark is current.
    #[serde(default)]
    pub current: bool,
    pub subject: Subject,
    /// An expected id that was cut inside its brackets stands for the ids that begin like it, where
    /// they agree on whether they passed.
    #[serde(default)]
    pub truncated_ids: bool,
    pub exit: ExitRule,
    /// Whether a fail-to-pass test must have passed; else a patch is resolved if nothing failed.
    pub needs_success: bool,
    pub log: LogRules,
    pub parser: ParserRules,
    #[serde(default)]
    pub test_command: TestCommandRules,
    pub fail_to_pass: Standings,
    pub pass_to_pass: Standings,
    /// For rows whose `eval_type` is `fail_only`; both groups.
    #[serde(default)]
    pub fail_only: Option<Standings>,
    pub run: RunRules,
}

/// How the benchmark's harness lays a patch and its tests into a sandbox.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRules {
    /// Tried in order, with the patch's path behind each.
    pub apply: Vec<String>,
    /// Run in the work directory before each further try.
    #[serde(default)]
    pub between: Option<String>,
    /// Where none applied, one that succeeds shows that the patch is there all the same.
    #[serde(default)]
    pub check_applied: Option<String>,
    /// Whether a patch without a last line end gets one.
    pub final_newline: bool,
    /// Whether the tests' patch is laid before the model's.
    pub tests_first: bool,
    /// Whether files that the tests' patch adds are removed before it is applied.
    pub remove_new_tests: bool,
    /// Whether what the agent did not see is there when its patch is laid.
    #[serde(default)]
    pub keep_hidden: bool,
    /// Whether the files of the expected tests are put back after the patch.
    #[serde(default)]
    pub restore_expected: bool,
    /// The limit of one run, where it is not the row's.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Whether the harness replaces bytes of the output that are not UTF-8 before it writes the log that it
    /// reads.
    #[serde(default)]
    pub replaces_bytes: bool,
    /// A shell line before the tests.
    pub prelude: String,
    /// The key of `task.benchmark.details` that may hold the harness's whole script: it puts the tests
    /// back, lays their patch and runs them, where the sandbox has a shell and a history for it.
    #[serde(default)]
    pub script: Option<Script>,
    /// How what was written from scratch is installed, where the benchmark has such tasks.
    #[serde(default)]
    pub from_scratch: Option<FromScratchRules>,
}

/// A script of the harness in the row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub detail: RowText,
    /// The variable in which the harness keeps the exit status of the tests.
    pub status: String,
}

/// The environment of the command that installs a submission; the command is the task's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromScratchRules {
    /// Where the untouched source is kept meanwhile.
    pub pristine: String,
    /// Variables: the harness has a network here, and our sandboxes have none.
    pub variables: BTreeMap<String, String>,
    pub seconds: u64,
}

/// What an expectation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A test, by its id.
    Id,
    /// A test file: its tests are the ones that were printed.
    File,
}

/// What an exit status of the test command says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitRule {
    Ignored,
    /// One that is not zero needs a failure in the log, or the log is not believed.
    NoSilentFailure,
    /// Zero, for each file, is what resolved means.
    ZeroForEachFile,
}

/// How a log is read before it is parsed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRules {
    pub newlines: Newlines,
    pub undecodable: Undecodable,
    /// A log that has one of these anywhere is not graded.
    pub reject: Vec<String>,
    /// Both must be in the log.
    #[serde(default)]
    pub markers: Option<Markers>,
    /// Must be in the log once it is lower-cased.
    #[serde(default)]
    pub require_lowercase: Option<String>,
    pub part: Part,
    #[serde(default)]
    pub after_last: Option<String>,
    /// Whether the whole log is parsed where its part gave nothing.
    #[serde(default)]
    pub whole_if_empty: bool,
    /// Where nothing was parsed, a pattern that shows that tests ran all the same.
    #[serde(default)]
    pub suite_ran: Option<String>,
    /// What the exit status is printed after.
    #[serde(default)]
    pub exit_marker: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Newlines {
    /// `\r\n` and `\r` are `\n`: the harness reads a file in text mode.
    Universal,
    Kept,
}

/// What bytes that are not UTF-8 do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecodable {
    Refused,
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Markers {
    pub start: String,
    pub end: String,
}

/// The part of the log that is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Whole,
    /// From the first start marker to the next marker of either kind.
    BetweenMarkers,
    /// Between the lines in which a tracing shell shows the markers.
    BetweenTracedMarkers,
    /// After the last mention of the test command.
    AfterTestCommand,
    /// After the last `after_last`.
    AfterLast,
}

/// Which parser reads a task's log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParserRules {
    pub edition: Edition,
    /// Details of the row that may name a parser. The first present counts.
    #[serde(default)]
    pub details: Vec<RowText>,
    /// The benchmark's own names of parsers.
    #[serde(default)]
    pub names: BTreeMap<String, ParserName>,
    #[serde(default)]
    pub repositories: BTreeMap<String, ParserName>,
    /// Repositories whose logs no parser of ours reads, and why.
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
    /// A detail that holds a parser as code, which is never run.
    #[serde(default)]
    pub code: Option<RowText>,
    /// Whether the names of repositories are compared in lower case.
    #[serde(default)]
    pub ignore_case: bool,
    #[serde(default)]
    pub default: Option<ParserName>,
}

/// How the command was called after whose last mention a log is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestCommandRules {
    /// Whether the row's `benchmark.details.test_cmd` comes first.
    #[serde(default)]
    pub of_row: bool,
    #[serde(default)]
    pub repositories: Vec<RepositoryCommand>,
    #[serde(default)]
    pub default: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepositoryCommand {
    pub repository: String,
    /// Absent: all of them.
    #[serde(default)]
    pub versions: Option<Vec<String>>,
    pub command: String,
}
