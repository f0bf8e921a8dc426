//! `proctor curve --check N`: really runs a sample of tasks at the smallest requested budget.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use proctor_core::{Before, Plan, dispatch};
use proctor_record::RunDir;
use proctor_report::TrialResult;
use proctor_types::{RunRecord, RunTask, TaskId, plural, sha256_hex};
use tokio::sync::mpsc;

use crate::{
    assemble::{self, Flakes, Grading, Scripts},
    commands::{
        carry_out::{board, endpoints},
        report::results_of,
        resume::plan_of,
    },
    error::CommandError,
    home, progress, scaffolds,
};

/// A sample of `count` tasks: the same ones each time, and a superset for a larger count.
pub fn sample(tasks: &[RunTask], count: usize) -> Vec<RunTask> {
    let mut order: Vec<&RunTask> = tasks.iter().collect();
    order.sort_by_key(|task| sha256_hex(task.task.id.as_str().as_bytes()));
    let chosen: BTreeSet<&TaskId> = order.iter().take(count).map(|task| &task.task.id).collect();
    tasks.iter().filter(|task| chosen.contains(&task.task.id)).cloned().collect()
}

/// Runs a plan, or its missing part, in a directory of its own, so that no paid response is paid
/// again. Returns its trials and the number of new responses.
pub async fn run_for_real(
    path: &Path,
    record: &RunRecord,
) -> Result<(Vec<TrialResult>, u64), CommandError> {
    let run = match RunDir::open(path) {
        Ok(run) => run,
        Err(_) => RunDir::create(path).map_err(CommandError::of_run)?,
    };
    run.write_run(record)?;
    let steps = |results: &[TrialResult]| -> u64 {
        let all = results.iter();
        all.map(|one| {
            let own = one.outcome.as_ref().map_or(0, |outcome| outcome.spent.steps);
            own + one.earlier.spent.steps
        })
        .sum()
    };
    let before = steps(&results_of(path, false)?);
    let mut plan: Plan = plan_of(record);
    let trials = plan.trials();
    tell!("running {} for the check: {}", plural(trials.len(), "trial"), path.display());
    assemble::check_models(&record.arms, &|_, error| error)?;
    let cache = home::cache()?;
    let backends = assemble::backends(&record.arms, &cache).await?;
    let scripts = Scripts::serve(&record.arms).await?;
    plan.arms = record.arms.iter().map(|arm| Arc::new(scripts.addressed(arm))).collect();
    proctor_gateway::tokens::load().await;
    let (tell, told) = mpsc::unbounded_channel();
    let standing: Vec<_> =
        plan.chosen().iter().map(|(id, ..)| Before::of(&run.check(id))).collect();
    let watcher = tokio::spawn(progress::watch(told, board(&run, &plan)));
    let endpoints = scripts.limited(&endpoints(&run)?);
    let grading = (Grading::Once, Flakes::of(record));
    let parts = (grading, scaffolds::with_bundles(record).await?);
    let context = assemble::context(run, &plan, endpoints, backends, &cache, parts, tell)?;
    let context = Arc::new(context);
    dispatch(Arc::clone(&context), &plan, &standing, record.jobs).await;
    // The watcher ends when the run context, which holds the sender, is dropped.
    drop(context);
    watcher.await?;
    let results = results_of(path, false)?;
    let calls = steps(&results).saturating_sub(before);
    Ok((results, calls))
}
