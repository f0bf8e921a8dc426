//! `proctor grade --log`: grades an existing log without running tests.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_grade::{ExternalLog, LogError, LogSummary};
use proctor_report::wrap_long_lines;
use proctor_types::{Task, count_with_noun};

use crate::{
    error::{CommandError, UserError},
    print,
};

const TASK_HINT: &str = "pass a file with exactly one row: the task that the log belongs to";

/// Prints the verdict in the form of `verdict.json`. The exit status is 0 for any verdict.
pub fn grade_log(log_file: &Path, row_file: &Path) -> Result<ExitCode, CommandError> {
    let task = read_single_task(row_file)?;
    let of_row = |error: LogError| log_error_to_command_error(error, log_file, row_file);
    let given = ExternalLog::read(log_file, &task).map_err(of_row)?;
    let verdict = proctor_grade::grade_log(&task, &given).map_err(of_row)?;
    if let Some((what, hint)) =
        empty_log_warning(log_file, &given.summarize(&task).map_err(of_row)?)
    {
        tell!("{}", wrap_long_lines(&format!("note: {what}")));
        tell!("{}", wrap_long_lines(&format!(" hint: {hint}")));
    }
    print::print_result(&format!("{}\n", serde_json::to_string_pretty(&verdict)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a warning and its hint if the log has no results for the task's tests. Official graders
/// count a test without a result as not passed, so the verdict is still valid.
fn empty_log_warning(log_file: &Path, summary: &LogSummary) -> Option<(String, String)> {
    let (log, reader) = (log_file.display(), &summary.parser_description);
    if summary.result_count == 0 {
        let lines = count_with_noun(summary.line_count, "line");
        let why = summary.rejection.as_ref().map_or(String::new(), |why| format!("; {why}"));
        let what = format!("no test results in {log} ({lines}, read {reader}){why}");
        let hint =
            "pass the complete test output as stored by the benchmark's harness (test_output.txt)";
        return Some((what, hint.to_owned()));
    }
    (summary.expected_result_count == 0).then(|| {
        let results = count_with_noun(summary.result_count, "test result");
        let what =
            format!("{log} has {results}, read {reader}, but none belongs to a test of this task");
        (what, "check that the log and the row belong to the same task".to_owned())
    })
}

/// Reads the single task in a file. Relative paths are resolved against the current directory.
fn read_single_task(row_file: &Path) -> Result<Task, CommandError> {
    let shown = row_file.display();
    let pattern = row_file.to_string_lossy().into_owned();
    let mut loaded = proctor_datasets::load(&[pattern], Path::new("."))
        .map_err(|error| UserError::new(format!("--task: {error}")).hint(TASK_HINT))?;
    if let Some(bad) = loaded.bad_rows.first() {
        return Err(UserError::new(format!("--task: {bad}")).hint("fix this row").into());
    }
    match loaded.tasks.len() {
        1 => Ok(loaded.tasks.remove(0)),
        count => {
            Err(UserError::new(format!("--task: {shown} has {count} tasks")).hint(TASK_HINT).into())
        }
    }
}

fn log_error_to_command_error(error: LogError, log_file: &Path, row_file: &Path) -> CommandError {
    match error {
        LogError::Unreadable { path, error } => {
            let path: PathBuf = path;
            UserError::new(format!("--log: cannot read {}: {error}", path.display()))
                .hint("pass a log file, or the folder of one attempt with its test_output.txt")
                .into()
        }
        LogError::Policy(error) => {
            UserError::new(format!("--task: {}: {}", row_file.display(), error.message))
                .hint(error.hint)
                .into()
        }
        LogError::Fault(fault) => anyhow::anyhow!("{}: {fault}", log_file.display()).into(),
    }
}
