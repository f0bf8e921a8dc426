//! `proctor tasks`: what a dataset holds, and whether it can be trusted.

use std::{path::Path, process::ExitCode, sync::Arc};

use proctor_core::{Plan, PlannedTask};
use proctor_types::{Budget, NetworkPolicy, SandboxKind, SandboxSpec};
use std::collections::BTreeMap;

use crate::{
    args::{Dataset, TasksAction},
    assemble::{self, Grading},
    commands::{carry_out::carry_out, report, run},
    config::{self, ConfigFile},
    error::{CommandError, UserError},
    home, tasks,
};

pub async fn tasks(action: TasksAction) -> Result<ExitCode, CommandError> {
    match action {
        TasksAction::List(dataset) => list(&dataset).await,
        TasksAction::Show { id, dataset } => show(&id, &dataset).await,
        TasksAction::Validate { dataset, repeat, sandbox, jobs, out } => {
            validate(dataset, repeat, sandbox.into(), jobs, out.as_deref()).await
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

/// Gold must resolve every task and noop none, `repeat` times; anything else is exit status 1.
async fn validate(
    dataset: Dataset,
    repeat: u32,
    kind: SandboxKind,
    jobs: usize,
    out: Option<&Path>,
) -> Result<ExitCode, CommandError> {
    let temporary = tempfile::tempdir()?;
    let out = out.unwrap_or(temporary.path());
    let cache = home::cache()?;
    let backend = assemble::backend(kind, &cache).await?;
    let planned = tasks::load(&dataset.tasks, Path::new("."), &cache, &backend).await?;
    let file = config_of(dataset.tasks, repeat, kind, jobs);
    let resolved = config::resolve(
        file,
        &|name| proctor_scaffolds::builtin(name),
        proctor_scaffolds::names(),
    )?;
    let run_dir = run::start(out, &resolved.file, resolved.arms.clone(), &planned)?;
    let plan = Plan {
        tasks: planned,
        arms: resolved.arms.into_iter().map(Arc::new).collect(),
        attempts: repeat,
    };
    // Each repetition counts only if it really runs.
    let backends = BTreeMap::from([(kind, backend)]);
    carry_out(run_dir, plan, jobs, backends, &cache, Grading::Anew).await?;
    let report = report::of_run(out)?;
    let mut invalid = Vec::new();
    for trial in &report.tasks {
        let is_gold = report.arms.iter().any(|arm| arm.arm == trial.arm && arm.name == "gold");
        if trial.resolved != Some(is_gold) {
            let arm = if is_gold { "gold" } else { "noop" };
            let found = match trial.resolved {
                Some(true) => "resolves it",
                Some(false) => "does not resolve it",
                None => "has no verdict",
            };
            invalid.push(format!("{}, attempt {}: {arm} {found}", trial.task, trial.attempt));
        }
    }
    if invalid.is_empty() {
        eprintln!("valid: gold resolves every task and noop none, {repeat} of {repeat} times");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("invalid:\n  {}", invalid.join("\n  "));
    Ok(ExitCode::from(1))
}

fn config_of(tasks: Vec<String>, attempts: u32, kind: SandboxKind, jobs: usize) -> ConfigFile {
    let sandbox = SandboxSpec { kind, ..SandboxSpec::default() };
    ConfigFile {
        tasks,
        attempts,
        jobs,
        arms: vec![config::plain_arm("gold", &sandbox), config::plain_arm("noop", &sandbox)],
        sandbox: sandbox.clone(),
        network: NetworkPolicy::default(),
        budget: Budget::default(),
        models: BTreeMap::new(),
    }
}
