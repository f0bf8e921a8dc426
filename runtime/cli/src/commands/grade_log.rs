//! `proctor grade --log`: a log that somebody else's grading left. Nothing runs.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use proctor_grade::{GivenLog, LogError};
use proctor_types::Task;

use crate::{
    error::{CommandError, UserError},
    print,
};

/// Prints the verdict, as `verdict.json` has it. Its status says that there is one, not which.
pub fn grade_log(log: &Path, row: &Path) -> Result<ExitCode, CommandError> {
    let task = one_task(row)?;
    let of_row = |error: LogError| told(error, log, row);
    let given = GivenLog::read(log, &task).map_err(of_row)?;
    let verdict = proctor_grade::grade_log(&task, &given).map_err(of_row)?;
    print::result(&format!("{}\n", serde_json::to_string_pretty(&verdict)?))?;
    Ok(ExitCode::SUCCESS)
}

/// The one task of a file. Relative paths are from the current folder.
fn one_task(row: &Path) -> Result<Task, CommandError> {
    let shown = row.display();
    let pattern = row.to_string_lossy().into_owned();
    let mut loaded = proctor_datasets::load(&[pattern], Path::new("."))
        .map_err(|error| UserError::new(format!("--task: {error}")))?;
    if let Some(bad) = loaded.bad.first() {
        return Err(UserError::new(format!("--task: {bad}")).hint("correct this row").into());
    }
    match loaded.tasks.len() {
        1 => Ok(loaded.tasks.remove(0)),
        count => Err(UserError::new(format!("--task: {shown} has {count} tasks"))
            .hint("give a file with the one row that the log belongs to")
            .into()),
    }
}

fn told(error: LogError, log: &Path, row: &Path) -> CommandError {
    match error {
        LogError::Unreadable { path, error } => {
            let path: PathBuf = path;
            UserError::new(format!("--log: {} cannot be read: {error}", path.display()))
                .hint("give a log file, or the folder of one attempt with its test_output.txt")
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
