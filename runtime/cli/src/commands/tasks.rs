//! `proctor tasks`: what a dataset holds, and whether it can be trusted.

use std::{path::Path, process::ExitCode};

use proctor_core::PlannedTask;
use proctor_types::SandboxKind;

use crate::{
    args::{Dataset, TasksAction},
    assemble,
    commands::validate::{Validation, validate},
    error::{CommandError, UserError},
    home, tasks,
};

pub async fn tasks(action: TasksAction) -> Result<ExitCode, CommandError> {
    match action {
        TasksAction::List(dataset) => list(&dataset).await,
        TasksAction::Show { id, dataset } => show(&id, &dataset).await,
        TasksAction::Validate { dataset, repeat, sandbox, jobs, out, certificate } => {
            let kind = sandbox.into();
            validate(Validation { dataset, repeat, kind, jobs, out, certificate }).await
        }
    }
}

async fn load(dataset: &Dataset, kind: SandboxKind) -> Result<Vec<PlannedTask>, CommandError> {
    let cache = home::cache()?;
    let backend = assemble::backend(kind, &cache).await?;
    tasks::load(&dataset.tasks, Path::new("."), &cache, &backend).await
}

#[expect(clippy::print_stdout, reason = "the list is this command's result")]
async fn list(dataset: &Dataset) -> Result<ExitCode, CommandError> {
    for planned in load(dataset, SandboxKind::Native).await? {
        let task = &planned.task;
        println!(
            "{}  {}  F2P {}  P2P {}",
            task.id,
            task.repo.as_deref().unwrap_or("-"),
            task.fail_to_pass.len(),
            task.pass_to_pass.len(),
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the task is this command's result")]
async fn show(id: &str, dataset: &Dataset) -> Result<ExitCode, CommandError> {
    let all = load(dataset, SandboxKind::Native).await?;
    let Some(found) = all.iter().find(|planned| planned.task.id.as_str() == id) else {
        return Err(UserError::new(format!("no task is called `{id}`"))
            .mend("`proctor tasks list` names them")
            .into());
    };
    println!("{}", serde_json::to_string_pretty(found.task.as_ref())?);
    Ok(ExitCode::SUCCESS)
}
