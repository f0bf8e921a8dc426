//! `proctor curve --check N`: runs a sample of tasks at the smallest requested budget.

use std::collections::BTreeSet;

use proctor_plan::PlannedRun;
use proctor_report::{TrialResult, read_results};
use proctor_run::Execution;
use proctor_types::{RunTask, TaskId, count_with_noun, sha256_hex};

use crate::{
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::execute::{PlanOutcome, execute_plan},
    error::CommandError,
};

/// Returns a fixed sample of `count` tasks. A larger count returns a superset.
pub fn sample_tasks(tasks: &[RunTask], count: usize) -> Vec<RunTask> {
    let mut order: Vec<&RunTask> = tasks.iter().collect();
    order.sort_by_key(|task| sha256_hex(task.task.id.as_str().as_bytes()));
    let chosen: BTreeSet<&TaskId> = order.iter().take(count).map(|task| &task.task.id).collect();
    tasks.iter().filter(|task| chosen.contains(&task.task.id)).cloned().collect()
}

/// Runs a plan in a separate directory. If the directory already has results, only the missing
/// trials run, so that no response is paid for twice. Returns the trials and the number of new
/// responses, or `None` if interrupted. `is_kept` means that the directory still exists after this
/// command.
pub async fn run_separately(
    planned_run: PlannedRun,
    is_kept: bool,
) -> Result<Option<(Vec<TrialResult>, u64)>, CommandError> {
    let PlannedRun { run, record, plan } = planned_run;
    let path = run.path().to_owned();
    let trials = plan.trials().len();
    let steps = |results: &[TrialResult]| -> u64 {
        let all = results.iter();
        all.map(|one| {
            let own = one.outcome.as_ref().map_or(0, |outcome| outcome.spent.steps);
            own + one.earlier_tries.spent.steps
        })
        .sum()
    };
    let before = steps(&read_results(&path, false)?);
    tell!("running {} for the check: {}", count_with_noun(trials, "trial"), path.display());
    let cache = cache_dir::default_cache_dir()?;
    let backends = assemble::start_backends(&record.arms, &cache, &record.config.cache).await?;
    let catalog = assemble::scaffold_catalog()?;
    let execution = Execution {
        run,
        plan,
        jobs: record.jobs,
        backends,
        scaffolds: &catalog,
        cache: &cache,
        regrade_policy: RegradePolicy::ReuseVerdict,
        flaky_tests: FlakyTests::from_record(&record, &assemble::print_message),
        say: &assemble::print_message,
        on_preflight: &assemble::print_preflight,
    };
    match execute_plan(execution, is_kept).await? {
        PlanOutcome::Finished { .. } => {}
        PlanOutcome::Interrupted | PlanOutcome::WoundDown => return Ok(None),
    }
    let results = read_results(&path, false)?;
    let calls = steps(&results).saturating_sub(before);
    Ok(Some((results, calls)))
}
