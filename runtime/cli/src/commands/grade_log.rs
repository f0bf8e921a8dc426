//! `proctor grade --log`: grades an existing log without running tests.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_grade::{ExternalLog, LogError, LogSummary};
use proctor_report::wrap_long_lines;
use proctor_types::{Task, plural};

use crate::{
    error::{CommandError, UserError},
    print,
};

const TASK_HINT: &str = "pass a file with exactly one row: the task that the log belongs to";

/// Prints the verdict in the form of `verdict.json`. The exit status is 0 for any verdict.
pub fn grade_log(log: &Path, row: &Path) -> Result<ExitCode, CommandError> {
    let task = read_single_task(row)?;
    let of_row = |error: LogError| command_error(error, log, row);
    let given = ExternalLog::read(log, &task).map_err(of_row)?;
    let verdict = proctor_grade::grade_log(&task, &given).map_err(of_row)?;
    if let Some((what, hint)) = empty_log_warning(log, &given.summarize(&task).map_err(of_row)?) {
        tell!("{}", wrap_long_lines(&format!("note: {what}")));
        tell!("{}", wrap_long_lines(&format!(" hint: {hint}")));
    }
    print::print_result(&format!("{}\n", serde_json::to_string_pretty(&verdict)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a warning and its hint if the log has no results for the task's tests. Official graders
/// count a test without a result as not passed, so the verdict is still valid.
fn empty_log_warning(log: &Path, found: &LogSummary) -> Option<(String, String)> {
    let (log, reader) = (log.display(), &found.reader);
    if found.results == 0 {
        let lines = plural(found.lines, "line");
        let why = found.rejection.as_ref().map_or(String::new(), |why| format!("; {why}"));
        let what = format!("no test results in {log} ({lines}, read {reader}){why}");
        let hint =
            "pass the complete test output as stored by the benchmark's harness (test_output.txt)";
        return Some((what, hint.to_owned()));
    }
    (found.expected_results == 0).then(|| {
        let results = plural(found.results, "test result");
        let what =
            format!("{log} has {results}, read {reader}, but none belongs to a test of this task");
        (what, "check that the log and the row belong to the same task".to_owned())
    })
}

/// Reads the single task in a file. Relative paths are resolved against the current directory.
fn read_single_task(row: &Path) -> Result<Task, CommandError> {
    let shown = row.display();
    let pattern = row.to_string_lossy().into_owned();
    let mut loaded = proctor_datasets::load(&[pattern], Path::new("."))
        .map_err(|error| UserError::new(format!("--task: {error}")).hint(TASK_HINT))?;
    if let Some(bad) = loaded.bad.first() {
        return Err(UserError::new(format!("--task: {bad}")).hint("fix this row").into());
    }
    match loaded.tasks.len() {
        1 => Ok(loaded.tasks.remove(0)),
        count => {
            Err(UserError::new(format!("--task: {shown} has {count} tasks")).hint(TASK_HINT).into())
        }
    }
}

fn command_error(error: LogError, log: &Path, row: &Path) -> CommandError {
    match error {
        LogError::Unreadable { path, error } => {
            let path: PathBuf = path;
            UserError::new(format!("--log: cannot read {}: {error}", path.display()))
                .hint("pass a log file, or the folder of one attempt with its test_output.txt")
                .into()
        }
        LogError::Policy(error) => {
            UserError::new(format!("--task: {}: {}", row.display(), error.what))
                .hint(error.hint)
                .into()
        }
        LogError::Fault(fault) => anyhow::anyhow!("{}: {fault}", log.display()).into(),
    }
}
