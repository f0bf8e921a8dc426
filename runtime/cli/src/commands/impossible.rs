//! `proctor tasks impossible`: creates variants of tasks that no honest solution can resolve.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use proctor_plan::{PlannedRun, Purpose, ReadConfig};
use proctor_run::{Execution, find_impossible_variants};
use proctor_types::{SandboxKind, SandboxSpec, count_with_noun};
use proctor_validation::{impossible_variant as variant_of, make_paths_absolute};

use crate::{
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::execute::progress_board,
    config,
    error::{CommandError, INTERRUPTED_STATUS, UserError},
    progress,
};

/// Writes the impossible variants to a file, and lists the tasks that have none. Fails if no task
/// has one.
pub async fn write_impossible_variants(
    patterns: &[String],
    kind: SandboxKind,
    out: &Path,
) -> Result<ExitCode, CommandError> {
    let cache = cache_dir::default_cache_dir()?;
    let temporary = tempfile::Builder::new().prefix("proctor-impossible-").tempdir()?;
    let sandbox = SandboxSpec { kind, ..SandboxSpec::default() };
    let arm = config::plain_arm("noop", &sandbox);
    let file = config::plain_config(patterns.to_vec(), &sandbox, vec![arm]);
    let catalog = assemble::scaffold_catalog()?;
    let world = assemble::plan_context(&cache, &catalog);
    let resolved =
        ReadConfig::from_arguments(file, assemble::SANDBOX_OPTION_HINT).resolve(world)?;
    let loaded = resolved.load(world, Purpose::Open, &[], None).await?;
    let backend = assemble::start_backend(kind, &cache).await?;
    let ready = loaded.build_bundles(world).await?.build_recipes(world, &backend).await?;
    // The run exists only to open sandboxes. Its trials never start.
    let agent = proctor_embedded_agent::agent_digest();
    let PlannedRun { run, plan, .. } = ready.create_run(temporary.path(), agent)?;
    let (board, trials) = (progress_board(&run, &plan), plan.trials());
    let execution = Execution {
        run,
        plan,
        jobs: 1,
        backends: BTreeMap::from([(kind, backend)]),
        scaffolds: &catalog,
        cache: &cache,
        regrade_policy: RegradePolicy::ReuseVerdict,
        flaky_tests: FlakyTests::default(),
        say: &assemble::print_message,
        on_preflight: &assemble::print_preflight,
    };
    let (context, told) = execution.open().await?.into_parts();
    let watcher = tokio::spawn(progress::show_progress(told, board));
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for (id, planned, arm) in trials {
        let found = tokio::select! {
            found = Box::pin(find_impossible_variants(&context, &id, &planned, &arm)) => found?,
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(INTERRUPTED_STATUS)),
        };
        match found.iter().find_map(|wrong| variant_of(&planned.task, wrong)) {
            Some(variant) => {
                rows.push(serde_json::to_string(&make_paths_absolute(variant, &planned.base_dir)?)?)
            }
            None => without.push(planned.task.id.to_string()),
        }
    }
    drop(context);
    watcher.await?;
    for task in &without {
        tell!(
            "note: {task}: the fail-to-pass tests contain no expectation that can be safely changed to a wrong value"
        );
    }
    if rows.is_empty() {
        return Err(UserError::new("no task has an impossible variant")
            .hint(
                "the fail-to-pass tests must be individual pytest tests that compare with literals",
            )
            .into());
    }
    std::fs::write(out, rows.join("\n") + "\n").map_err(|error| {
        UserError::new(format!("cannot write {}: {error}", out.display()))
            .hint("choose a file in a writable folder")
    })?;
    tell!("{}: {}", count_with_noun(rows.len(), "impossible variant"), out.display());
    Ok(ExitCode::SUCCESS)
}
