//! `proctor tasks impossible`: creates a variant of each task that no honest solution resolves.

use std::{path::Path, process::ExitCode, sync::Arc};

use proctor_run::{Execution, Plan, variants};
use proctor_types::{SandboxKind, SandboxSpec, plural};
use proctor_validation::{impossible as variant_of, placed};

use crate::{
    assemble::{self, Flakes, Grading},
    commands::carry_out::board,
    config,
    error::{CommandError, INTERRUPTED, UserError},
    home, progress, tasks,
};

/// Writes the variants. Tasks without one are listed with the reason. If no task has one, that is
/// an error.
pub async fn impossible(
    patterns: &[String],
    kind: SandboxKind,
    out: &Path,
) -> Result<ExitCode, CommandError> {
    let cache = home::cache()?;
    let temporary = tempfile::Builder::new().prefix("proctor-impossible-").tempdir()?;
    let sandbox = SandboxSpec { kind, ..SandboxSpec::default() };
    let arm = config::plain_arm("noop", &sandbox);
    let file = config::plain_config(patterns.to_vec(), &sandbox, vec![arm]);
    let resolved = assemble::resolve(file, &config::Written::default())?;
    let loaded = tasks::whole(patterns, &cache, &assemble::say).await?;
    let backend = assemble::backend(kind, &cache).await?;
    let planned = tasks::built(loaded, &cache, &backend, &assemble::say).await?;
    // A run that never starts.
    let started =
        assemble::start(temporary.path(), &resolved.file, resolved.arms.clone(), &planned, None)?;
    let plan = Plan {
        tasks: planned,
        arms: resolved.arms.into_iter().map(Arc::new).collect(),
        attempts: 1,
        ..Plan::default()
    };
    let arms: Vec<_> = plan.arms.iter().map(|arm| arm.as_ref().clone()).collect();
    let backends = assemble::backends(&arms, &cache, &config::CacheFile::default()).await?;
    let (board, trials) = (board(&started.0, &plan), plan.trials());
    let catalog = assemble::catalog()?;
    let execution = Execution {
        run: started.0,
        plan,
        jobs: 1,
        backends,
        scaffolds: &catalog,
        cache: &cache,
        grading: Grading::Once,
        flakes: Flakes::default(),
        say: &assemble::say,
        hear: &assemble::hear,
    };
    let (context, told) = execution.open().await?.into_parts();
    let watcher = tokio::spawn(progress::watch(told, board));
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for (id, planned, arm) in trials {
        let found = tokio::select! {
            found = Box::pin(variants(&context, &id, &planned, &arm)) => found?,
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
        };
        match found.iter().find_map(|wrong| variant_of(&planned.task, wrong)) {
            Some(variant) => {
                rows.push(serde_json::to_string(&placed(variant, &planned.base_dir)?)?)
            }
            None => without.push(planned.task.id.to_string()),
        }
    }
    drop(context);
    watcher.await?;
    for task in &without {
        tell!(
            "note: {task}: no expectation in its fail-to-pass tests can be safely changed to a wrong one"
        );
    }
    if rows.is_empty() {
        return Err(UserError::new("no task has an impossible variant")
            .hint("fail-to-pass tests must be single pytest tests that compare with literal values")
            .into());
    }
    std::fs::write(out, rows.join("\n") + "\n").map_err(|error| {
        UserError::new(format!("cannot write {}: {error}", out.display()))
            .hint("choose a file in a writable folder")
    })?;
    tell!("{}: {}", plural(rows.len(), "impossible variant"), out.display());
    Ok(ExitCode::SUCCESS)
}
