//! `proctor tasks impossible`: creates a variant of each task that no honest solution resolves.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use proctor_core::{Plan, PlannedTask, impossible as variant_of, variants};
use proctor_types::{SandboxKind, SandboxSpec, Source, Task, plural};
use tokio::sync::mpsc;

use crate::{
    assemble::{self, Flakes, Grading},
    commands::{
        carry_out::{INTERRUPTED, board},
        run,
        validate::plain_config,
    },
    config,
    error::{CommandError, UserError},
    home, progress, scaffolds, tasks,
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
    let file = plain_config(patterns.to_vec(), &sandbox, vec![arm]);
    let resolved = config::resolve(file, &config::Written::default(), &assemble::known())?;
    let loaded = tasks::whole(patterns, &cache).await?;
    let backend = assemble::backend(kind, &cache).await?;
    let planned = tasks::built(loaded, &cache, &backend).await?;
    // A run that never starts.
    let started =
        run::start(temporary.path(), &resolved.file, resolved.arms.clone(), &planned, None)?;
    let plan = Plan {
        tasks: planned,
        arms: resolved.arms.into_iter().map(Arc::new).collect(),
        attempts: 1,
        ..Plan::default()
    };
    let arms: Vec<_> = plan.arms.iter().map(|arm| arm.as_ref().clone()).collect();
    let backends = assemble::backends(&arms, &cache).await?;
    let (tell, told) = mpsc::unbounded_channel();
    let watcher = tokio::spawn(progress::watch(told, board(&started.0, &plan)));
    let record = started.0.read_run()?;
    let parts = ((Grading::Once, Flakes::default()), scaffolds::with_bundles(&record).await?);
    let context = assemble::context(started.0, &plan, Vec::new(), backends, &cache, parts, tell)?;
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for (id, planned, arm) in plan.trials() {
        let found = tokio::select! {
            found = Box::pin(variants(&context, &id, &planned, &arm)) => found?,
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED)),
        };
        match found.iter().find_map(|wrong| variant_of(&planned.task, wrong)) {
            Some(variant) => rows.push(serde_json::to_string(&placed(variant, &planned)?)?),
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

/// Makes relative paths absolute, because they are resolved against the new file's directory.
fn placed(mut task: Task, planned: &PlannedTask) -> Result<Task, CommandError> {
    let whole = |path: &mut String| -> Result<(), CommandError> {
        let full: PathBuf = std::path::absolute(planned.base_dir.join(&*path))?;
        *path = full.to_string_lossy().into_owned();
        Ok(())
    };
    match &mut task.source {
        Some(Source::Path { path } | Source::Archive { archive: path, .. }) => whole(path)?,
        // A URL, or the path of a clone.
        Some(Source::Git { git, .. }) if planned.base_dir.join(&*git).exists() => whole(git)?,
        Some(Source::Git { .. } | Source::Pypi { .. }) | None => {}
    }
    match &mut task.environment.base {
        Some(base) if base != "host" => whole(base)?,
        _ => {}
    }
    if let Some(dockerfile) = &mut task.environment.dockerfile {
        whole(dockerfile)?;
    }
    if let Some(image) = &mut task.environment.image
        && planned.base_dir.join(&*image).is_file()
    {
        whole(image)?;
    }
    Ok(task)
}
