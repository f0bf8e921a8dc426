//! What distinguishes one benchmark's grading from another's: `configs/benchmarks/policies/*.toml`.

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
    /// Version of the harness: a release, or the commit if there are no releases.
    pub version: String,
    /// Other names of the same version.
    #[serde(default)]
    pub also_named: Vec<String>,
    /// Used if a task names no version. One policy of each benchmark is current.
    #[serde(default)]
    pub current: bool,
    pub subject: Subject,
    /// An expected id that was cut inside its brackets represents the ids that begin like it, if
    /// they agree on whether they passed.
    #[serde(default)]
    pub truncated_ids: bool,
    pub exit: ExitRule,
    /// Whether a fail-to-pass test must have passed; otherwise a patch is resolved if nothing
    /// failed.
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

/// How the benchmark's harness puts a patch and its tests into a sandbox.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRules {
    /// Tried in order, with the patch's path appended.
    pub apply: Vec<String>,
    /// Run in the work directory before each further attempt.
    #[serde(default)]
    pub between: Option<String>,
    /// If none applied: success of this command shows that the patch is applied nevertheless.
    #[serde(default)]
    pub check_applied: Option<String>,
    /// Whether a patch without a final newline gets one.
    pub final_newline: bool,
    /// Whether the tests' patch is applied before the model's.
    pub tests_first: bool,
    /// Whether files that the tests' patch adds are removed before it is applied.
    pub remove_new_tests: bool,
    /// Whether files hidden from the agent are present when its patch is applied.
    #[serde(default)]
    pub keep_hidden: bool,
    /// Whether the files of the expected tests are restored after the patch.
    #[serde(default)]
    pub restore_expected: bool,
    /// The time limit of one run, if the row does not set it.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Whether the harness replaces non-UTF-8 bytes of the output before it writes the log that it
    /// reads.
    #[serde(default)]
    pub replaces_bytes: bool,
    /// A shell line before the tests.
    pub prelude: String,
    /// The key of `task.benchmark.details` that may hold the harness's whole script: it restores
    /// the tests, applies their patch and runs them. Used if the sandbox has the shell and the
    /// history that it needs.
    #[serde(default)]
    pub script: Option<Script>,
    /// How a from-scratch submission is installed, if the benchmark has such tasks.
    #[serde(default)]
    pub from_scratch: Option<FromScratchRules>,
}

/// A harness script in the row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub detail: RowText,
    /// The variable in which the harness stores the exit status of the tests.
    pub status: String,
}

/// The environment of the command that installs a submission; the command comes from the task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromScratchRules {
    /// Where the untouched source is kept meanwhile.
    pub pristine: String,
    /// Variables needed because the harness has a network here, but our sandboxes do not.
    pub variables: BTreeMap<String, String>,
    pub seconds: u64,
}

/// What an expectation refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A test, by its id.
    Id,
    /// A test file; its tests are the ones that were printed.
    File,
}

/// The meaning of the test command's exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitRule {
    Ignored,
    /// With a status other than zero, the log must contain a failure, or it is not trusted.
    NoSilentFailure,
    /// Resolved means zero for each file.
    ZeroForEachFile,
}

/// How a log is prepared before it is parsed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRules {
    pub newlines: Newlines,
    pub undecodable: Undecodable,
    /// A log that contains one of these anywhere is not graded.
    pub reject: Vec<String>,
    /// Both must be in the log.
    #[serde(default)]
    pub markers: Option<Markers>,
    /// Must be in the lower-cased log.
    #[serde(default)]
    pub require_lowercase: Option<String>,
    pub part: Part,
    #[serde(default)]
    pub after_last: Option<String>,
    /// Whether the whole log is parsed if its part yields nothing.
    #[serde(default)]
    pub whole_if_empty: bool,
    /// A pattern that shows that tests ran even though nothing was parsed.
    #[serde(default)]
    pub suite_ran: Option<String>,
    /// The text before the exit status.
    #[serde(default)]
    pub exit_marker: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Newlines {
    /// `\r\n` and `\r` become `\n`: the harness reads the file in text mode.
    Universal,
    Kept,
}

/// What happens to bytes that are not UTF-8.
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
    /// Details of the row that may name a parser. The first present one is used.
    #[serde(default)]
    pub details: Vec<RowText>,
    /// The benchmark's own names of parsers.
    #[serde(default)]
    pub names: BTreeMap<String, ParserName>,
    #[serde(default)]
    pub repositories: BTreeMap<String, ParserName>,
    /// Repositories whose logs none of our parsers reads, and why.
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
    /// A detail that contains a parser as code, which is never run.
    #[serde(default)]
    pub code: Option<RowText>,
    /// Whether repository names are compared in lower case.
    #[serde(default)]
    pub ignore_case: bool,
    #[serde(default)]
    pub default: Option<ParserName>,
}

/// The command after whose last mention a log is read.
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
