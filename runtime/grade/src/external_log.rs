//! Grades a log from a run outside Proctor.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use proctor_official::{
    FileRun, OfficialPolicy, OfficialVerdict, PolicyError, Subject, add_official_verdict,
    parsers::text::pattern, reader,
};
use proctor_types::{Fault, FaultLayer, Task, TestStatus, Verdict};
use regex::Regex;

use crate::{
    evidence::{self, new_evidence},
    evidence_limit::limit_evidence,
    verdict::build_verdict,
};

/// The logs of a test run that Proctor did not start.
#[derive(Debug, Clone)]
pub enum ExternalLog {
    /// A single log for one run of all tests: from a harness or a test runner, or a JUnit XML
    /// report.
    Whole(Vec<u8>),
    /// One log per test file, as FeatureBench runs them.
    Files { fail_to_pass: FileRun, pass_to_pass: Vec<FileRun> },
}

/// Why a log cannot be graded.
#[derive(Debug)]
pub enum LogError {
    Unreadable { path: PathBuf, error: io::Error },
    Policy(PolicyError),
    Fault(Fault),
}

const F2P_LOG: &str = "test_output.txt";
const P2P_PREFIX: &str = "test_output_p2p_";
const HARNESS_LOG: &str = "run_instance.log";

static P2P_EXIT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"P2P test (\S+) exit code: (-?\d+)"));
static F2P_EXIT_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"F2P test exit code: (-?\d+)"));

impl ExternalLog {
    /// Reads a log file, or the folder that contains a harness's logs of one attempt.
    ///
    /// The exit status of a file's run comes from the harness's own log in the same folder. Without
    /// that log, the status is inferred from the counts at the end of the file's log. If that log
    /// ends without counts, the status is unknown.
    ///
    /// # Errors
    ///
    /// The path cannot be read, or the task names an unknown policy.
    pub fn read(path: &Path, task: &Task) -> Result<Self, LogError> {
        let policy = OfficialPolicy::for_task(task).map_err(LogError::Policy)?;
        let folder = path.is_dir();
        let main = if folder { path.join(F2P_LOG) } else { path.to_owned() };
        let log = read_log_file(&main)?;
        if policy.is_none_or(|policy| policy.subject == Subject::Id) {
            return Ok(Self::Whole(log));
        }
        let harness = folder.then(|| fs::read(path.join(HARNESS_LOG)).ok()).flatten();
        let harness = String::from_utf8_lossy(harness.as_deref().unwrap_or_default()).into_owned();
        let told = F2P_EXIT_PATTERN.captures_iter(&harness).last();
        let exit = told.and_then(|found| found[1].parse().ok()).or_else(|| infer_exit_status(&log));
        let file = task.fail_to_pass.first().cloned().unwrap_or_default();
        let fail_to_pass = FileRun { file, log, exit_status: exit };
        let mut pass_to_pass = Vec::new();
        for file in &task.pass_to_pass {
            let base = file.rsplit('/').next().unwrap_or(file).replace(".py", "");
            let log = path.join(format!("{P2P_PREFIX}{base}.txt"));
            let log = if folder && log.exists() { read_log_file(&log)? } else { Vec::new() };
            let told = P2P_EXIT_PATTERN
                .captures_iter(&harness)
                .filter(|found| found[1].ends_with(file))
                .last();
            let exit =
                told.and_then(|found| found[2].parse().ok()).or_else(|| infer_exit_status(&log));
            pass_to_pass.push(FileRun { file: file.clone(), log, exit_status: exit });
        }
        Ok(Self::Files { fail_to_pass, pass_to_pass })
    }
}

/// Grades a log with the strict policy, and with the official policy of the task's benchmark if it
/// has one.
///
/// # Errors
///
/// The task names an unknown policy, or the policy cannot grade the log.
pub fn grade_log(task: &Task, log: &ExternalLog) -> Result<Verdict, LogError> {
    let mut strict = grade_strict(task, log).map_err(LogError::Fault)?;
    limit_evidence(&mut strict).map_err(LogError::Fault)?;
    let Some(policy) = OfficialPolicy::for_task(task).map_err(LogError::Policy)? else {
        return Ok(strict);
    };
    Ok(add_official_verdict(strict, grade_official(policy, task, log)?))
}

/// How a log was read and what it contains. A file that isn't a log has no results, so its task is
/// unresolved, as it is with a bad patch. The counts distinguish these cases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSummary {
    /// A phrase that names the parser.
    pub parser_description: String,
    pub line_count: usize,
    /// Number of results, of any test.
    pub result_count: usize,
    /// Number of results for tests that the task expects.
    pub expected_result_count: usize,
    /// Why the official grader rejected the log, if it did.
    pub rejection: Option<String>,
}

impl ExternalLog {
    /// Returns how this log is read and how many results it contains.
    ///
    /// # Errors
    ///
    /// See [`grade_log`].
    pub fn summarize(&self, task: &Task) -> Result<LogSummary, LogError> {
        let lines = |log: &[u8]| reader::to_plain_text(log).lines().count();
        let lines = match self {
            Self::Whole(log) => lines(log),
            Self::Files { fail_to_pass, pass_to_pass } => {
                std::iter::once(fail_to_pass).chain(pass_to_pass).map(|run| lines(&run.log)).sum()
            }
        };
        let Some(policy) = OfficialPolicy::for_task(task).map_err(LogError::Policy)? else {
            let verdict = grade_strict(task, self).map_err(LogError::Fault)?;
            let of_task = count_reported_tests(&verdict.tests);
            let reader = "with Proctor's own rules".to_owned();
            return Ok(LogSummary {
                parser_description: reader,
                line_count: lines,
                result_count: of_task,
                expected_result_count: of_task,
                rejection: None,
            });
        };
        let official = grade_official(policy, task, self)?;
        let parser = policy.parser_for(task).map_err(LogError::Policy)?.name();
        Ok(LogSummary {
            parser_description: format!(
                "with the parser {parser} of {} {}",
                policy.benchmark, policy.version
            ),
            line_count: lines,
            result_count: official.statuses.len(),
            expected_result_count: count_reported_tests(&official.tests),
            rejection: (!official.was_graded).then_some(official.reason),
        })
    }
}

fn count_reported_tests(tests: &BTreeMap<String, TestStatus>) -> usize {
    tests.values().filter(|status| **status != TestStatus::Missing).count()
}

fn grade_official(
    policy: &OfficialPolicy,
    task: &Task,
    log: &ExternalLog,
) -> Result<OfficialVerdict, LogError> {
    let graded = match log {
        ExternalLog::Whole(log) => policy.grade_log(task, log),
        ExternalLog::Files { fail_to_pass, pass_to_pass } => {
            policy.grade_files(task, fail_to_pass, pass_to_pass)
        }
    };
    graded.map_err(LogError::Policy)
}

fn grade_strict(task: &Task, log: &ExternalLog) -> Result<Verdict, Fault> {
    let mut evidence =
        vec![new_evidence(evidence::READ_FROM_LOG, "the graded code could have written the log")];
    let (tests, ended) = match log {
        ExternalLog::Whole(log) => {
            let wanted: Vec<String> =
                task.fail_to_pass.iter().chain(&task.pass_to_pass).cloned().collect();
            let results = task.test_results.as_ref();
            let reading = reader::read(log, &wanted, results, &task.workdir);
            evidence.extend(
                reading.doubts.into_iter().map(|what| new_evidence(evidence::LOG_DOUBTED, what)),
            );
            (reading.tests, reading.is_complete)
        }
        ExternalLog::Files { fail_to_pass, pass_to_pass } => {
            let f2p =
                std::iter::once((fail_to_pass.file.clone(), file_status(fail_to_pass, false)));
            let p2p = pass_to_pass.iter().map(|run| (run.file.clone(), file_status(run, true)));
            let all = std::iter::once(fail_to_pass).chain(pass_to_pass);
            (f2p.chain(p2p).collect(), all.into_iter().all(|run| parse_totals(&run.log).is_some()))
        }
    };
    build_verdict(task, &tests, ended, evidence, &BTreeSet::new())
}

/// Returns a file's status. A file passes if at least one of its tests passed and none failed. A
/// skipped test does not count as passed, and only a pass-to-pass file (`may_skip`) may have
/// skipped tests.
fn file_status(run: &FileRun, may_skip: bool) -> TestStatus {
    let Some(totals) = parse_totals(&run.log) else { return TestStatus::Missing };
    if totals.failure_count() > 0 || run.exit_status.is_some_and(|exit| exit != 0) {
        TestStatus::Failed
    } else if totals.count("skipped") > 0 && !may_skip {
        TestStatus::Skipped
    } else if totals.count("passed") > 0 {
        TestStatus::Passed
    } else {
        TestStatus::Missing
    }
}

fn parse_totals(log: &[u8]) -> Option<reader::Totals> {
    reader::read_totals(&reader::to_plain_text(log))
}

/// Returns the exit status that pytest has for the counts at the end of its log: 5 if no test ran.
fn infer_exit_status(log: &[u8]) -> Option<i32> {
    let totals = parse_totals(log)?;
    Some(if totals.failure_count() > 0 {
        1
    } else if totals.is_empty() {
        5
    } else {
        0
    })
}

fn read_log_file(path: &Path) -> Result<Vec<u8>, LogError> {
    fs::read(path).map_err(|error| LogError::Unreadable { path: path.to_owned(), error })
}

impl LogError {
    /// Converts to a grading fault, for callers that do not report to a user.
    pub fn into_fault(self) -> Fault {
        match self {
            Self::Unreadable { path, error } => {
                Fault::new(FaultLayer::Grade, format!("{}: {error}", path.display()))
            }
            Self::Policy(error) => Fault::new(FaultLayer::Grade, error.message).hint(error.hint),
            Self::Fault(fault) => fault,
        }
    }
}
