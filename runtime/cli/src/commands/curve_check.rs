//! `proctor curve --check N`: really runs a sample of tasks at the smallest requested budget.

use std::{collections::BTreeSet, path::Path};

use proctor_record::RunDir;
use proctor_report::{TrialResult, results_of};
use proctor_run::{Execution, Plan};
use proctor_types::{RunRecord, RunTask, TaskId, plural, sha256_hex};

use crate::{
    assemble::{self, Flakes, Grading},
    commands::{
        carry_out::{Carried, carry},
        resume::plan_of,
    },
    error::CommandError,
    home, open_files,
};

/// A sample of `count` tasks: the same ones each time, and a superset for a larger count.
pub fn sample(tasks: &[RunTask], count: usize) -> Vec<RunTask> {
    let mut order: Vec<&RunTask> = tasks.iter().collect();
    order.sort_by_key(|task| sha256_hex(task.task.id.as_str().as_bytes()));
    let chosen: BTreeSet<&TaskId> = order.iter().take(count).map(|task| &task.task.id).collect();
    tasks.iter().filter(|task| chosen.contains(&task.task.id)).cloned().collect()
}

/// Runs a plan, or its missing part, in a directory of its own, so that no paid response is paid
/// again. Returns its trials and the number of new responses; `None`: it was interrupted. `is_kept`:
/// the directory outlives this command.
pub async fn run_for_real(
    path: &Path,
    record: &RunRecord,
    is_kept: bool,
) -> Result<Option<(Vec<TrialResult>, u64)>, CommandError> {
    let plan: Plan = plan_of(record);
    let trials = plan.trials().len();
    assemble::check_models(&record.arms, &|_, error| error)?;
    open_files::check(record.jobs, trials, record.arms.iter())?;
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
    tell!("running {} for the check: {}", plural(trials, "trial"), path.display());
    let (cache, kept) = (home::cache()?, assemble::cache_of(record)?);
    let backends = assemble::backends(&record.arms, &cache, &kept).await?;
    let catalog = assemble::catalog()?;
    let execution = Execution {
        run,
        plan,
        jobs: record.jobs,
        backends,
        scaffolds: &catalog,
        cache: &cache,
        grading: Grading::Once,
        flakes: Flakes::of(record, &assemble::say),
        say: &assemble::say,
        hear: &assemble::hear,
    };
    match carry(execution, is_kept).await? {
        Carried::Done { .. } => {}
        Carried::Interrupted | Carried::Drained => return Ok(None),
    }
    let results = results_of(path, false)?;
    let calls = steps(&results).saturating_sub(before);
    Ok(Some((results, calls)))
}
