//! How grading differs between benchmarks: `configs/benchmarks/policies/*.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    RowText, StatusGrades,
    parsers::{Edition, ParserName},
};

/// The grading rules of one benchmark at one version of its harness.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfficialPolicy {
    /// The name in `task.benchmark.name`.
    pub benchmark: String,
    /// Version of the harness: a release, or the commit if there are no releases.
    pub version: String,
    /// Other names for the same version.
    #[serde(default)]
    pub also_named: Vec<String>,
    /// Whether tasks without a version use this policy. Each benchmark has exactly one current
    /// policy.
    #[serde(default)]
    pub current: bool,
    pub subject: Subject,
    /// Whether an expected id that was truncated inside its brackets matches all ids with the same
    /// beginning. The matched tests must all have passed or all have failed.
    #[serde(default)]
    pub truncated_ids: bool,
    pub exit: ExitRule,
    /// Whether at least one fail-to-pass test must have passed. If false, a patch resolves the task
    /// if no test failed.
    pub needs_success: bool,
    pub log: LogRules,
    pub parser: ParserRules,
    #[serde(default)]
    pub test_command: TestCommandRules,
    pub fail_to_pass: StatusGrades,
    pub pass_to_pass: StatusGrades,
    /// How to grade rows whose `eval_type` is `fail_only`, for both groups of tests.
    #[serde(default)]
    pub fail_only: Option<StatusGrades>,
    pub run: RunRules,
}

/// How the benchmark's harness applies a patch and its tests in a sandbox.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRules {
    /// Commands to try in order. The patch's path is appended to each command.
    pub apply: Vec<String>,
    /// A command to run in the work directory before each further attempt.
    #[serde(default)]
    pub between: Option<String>,
    /// A command to run if every attempt failed. If the command succeeds, the patch counts as
    /// applied.
    #[serde(default)]
    pub check_applied: Option<String>,
    /// Whether to add a missing final newline to the patch.
    pub final_newline: bool,
    /// Whether the test patch is applied before the model's patch.
    pub tests_first: bool,
    /// Whether files that the test patch adds are removed before the test patch is applied.
    pub remove_new_tests: bool,
    /// Whether files that are hidden from the agent are present when the agent's patch is applied.
    #[serde(default)]
    pub keep_hidden: bool,
    /// Whether the expected tests' files are restored after the patch is applied.
    #[serde(default)]
    pub restore_expected: bool,
    /// The time limit of one run, if the row has none.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Whether the harness replaces non-UTF-8 bytes in the output before it writes the log.
    #[serde(default)]
    pub replaces_bytes: bool,
    /// A shell line that is run before the tests.
    pub prelude: String,
    /// The key in `task.benchmark.details` that may contain the harness's whole script. The script
    /// restores the tests, applies the test patch and runs the tests. Proctor uses the script if
    /// the sandbox has the shell and the Git history that the script needs.
    #[serde(default)]
    pub script: Option<Script>,
    /// How to install a from-scratch submission, if the benchmark has such tasks.
    #[serde(default)]
    pub from_scratch: Option<FromScratchRules>,
}

/// A harness script in the row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    pub detail: RowText,
    /// The variable in which the script stores the exit status of the tests.
    pub status: String,
}

/// How to install a from-scratch submission. The task contains the installation command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromScratchRules {
    /// Where the unchanged source is stored during the installation.
    pub pristine: String,
    /// Variables that let the installation succeed without a network. The harness has network
    /// access during the installation, but Proctor's sandboxes don't.
    pub variables: BTreeMap<String, String>,
    pub seconds: u64,
}

/// What an expected id refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A test.
    Id,
    /// A test file. Its tests are those in the log.
    File,
}

/// How the test command's exit status is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitRule {
    Ignored,
    /// If the status is not zero, the log must contain a failure. Otherwise the log is not trusted.
    NoSilentFailure,
    /// The task is resolved if the status is zero for each file.
    ZeroForEachFile,
}

/// How a log is prepared before it is parsed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRules {
    pub newlines: Newlines,
    pub undecodable: InvalidUtf8,
    /// A log that contains one of these strings anywhere is not graded.
    pub reject: Vec<String>,
    /// Both markers must be in the log.
    #[serde(default)]
    pub markers: Option<Markers>,
    /// This text must be in the log, ignoring case.
    #[serde(default)]
    pub require_lowercase: Option<String>,
    pub part: LogPart,
    #[serde(default)]
    pub after_last: Option<String>,
    /// Whether the whole log is parsed if its part contains no tests.
    #[serde(default)]
    pub whole_if_empty: bool,
    /// A pattern that proves that tests ran, even if no test was parsed.
    #[serde(default)]
    pub suite_ran: Option<String>,
    /// The text before the exit status in the log.
    #[serde(default)]
    pub exit_marker: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Newlines {
    /// Convert `\r\n` and `\r` to `\n`, because the harness reads the file in text mode.
    Universal,
    Kept,
}

/// How bytes that are not UTF-8 are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidUtf8 {
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
pub enum LogPart {
    Whole,
    /// From the first start marker to the next marker of either kind.
    BetweenMarkers,
    /// Between the lines in which a shell that traces commands (`set -x`) prints the markers.
    BetweenTracedMarkers,
    /// After the last occurrence of the test command.
    AfterTestCommand,
    /// After the last occurrence of `after_last`.
    AfterLast,
}

/// Rules for choosing the parser for a task's log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParserRules {
    pub edition: Edition,
    /// Details of the row that may name a parser. The first one that exists is used.
    #[serde(default)]
    pub details: Vec<RowText>,
    /// The benchmark's own parser names.
    #[serde(default)]
    pub names: BTreeMap<String, ParserName>,
    #[serde(default)]
    pub repositories: BTreeMap<String, ParserName>,
    /// Repositories whose logs no parser can read, and why.
    #[serde(default)]
    pub refused: BTreeMap<String, String>,
    /// A detail that contains a parser as source code. Such code is never run.
    #[serde(default)]
    pub code: Option<RowText>,
    /// Whether repository names are compared case-insensitively.
    #[serde(default)]
    pub ignore_case: bool,
    #[serde(default)]
    pub default: Option<ParserName>,
}

/// Rules for finding the test command. The log is read after the command's last occurrence.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestCommandRules {
    /// Whether the row's `benchmark.details.test_cmd` takes precedence.
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
    /// The versions to which this rule applies, or `None` for all versions.
    #[serde(default)]
    pub versions: Option<Vec<String>>,
    pub command: String,
}
