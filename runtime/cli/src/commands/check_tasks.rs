//! `run --check-tasks`: runs gold and noop on a sample of the tasks before the first trial calls a
//! model.

use std::collections::BTreeSet;

use proctor_plan::{PlanContext, ReadConfig, to_run_tasks};
use proctor_record::RunDir;
use proctor_report::TrialResult;
use proctor_run::PlannedTask;
use proctor_types::{Arm, RunTask, TrialId, count_with_noun};
use proctor_validation::verifier_defect;

use crate::{
    assemble, checks,
    commands::curve_check::{run_separately, sample_tasks},
    config,
    error::{CommandError, UserError},
};

/// Runs gold and noop on a fixed sample of this many tasks, on the first arm's back end. Skips
/// tasks without a gold solution. Returns `false` if the check was interrupted.
///
/// # Errors
/// Fails if gold does not resolve a task of the sample, or if noop resolves one. Trials of such a
/// task would be meaningless.
pub async fn check_tasks(
    arms: &[Arm],
    tasks: &[PlannedTask],
    count: u64,
    context: PlanContext<'_>,
) -> Result<bool, CommandError> {
    let Some(first) = arms.first() else { return Ok(true) };
    let with_gold = tasks.iter().filter(|one| checks::has_gold(&one.task));
    let with_gold: Vec<PlannedTask> = with_gold.cloned().collect();
    let with_gold = to_run_tasks(&with_gold);
    let chosen = sample_tasks(&with_gold, usize::try_from(count).unwrap_or(usize::MAX));
    if chosen.is_empty() {
        tell!("no tasks checked: none has a gold solution");
        return Ok(true);
    }
    let ids: BTreeSet<_> = chosen.iter().map(|one| one.task.id.clone()).collect();
    let planned: Vec<PlannedTask> =
        tasks.iter().filter(|one| ids.contains(&one.task.id)).cloned().collect();
    let folder = tempfile::Builder::new().prefix("proctor-check-tasks-").tempdir()?;
    let arms = ["gold", "noop"].map(|name| config::plain_arm(name, &first.sandbox));
    let names = ids.iter().map(ToString::to_string).collect();
    let file = config::plain_config(names, &first.sandbox, arms.to_vec());
    let resolved = ReadConfig::from_arguments(file, assemble::SANDBOX_KEY_HINT).resolve(context)?;
    let ready = resolved.with_tasks(context, planned).await?;
    let out = folder.path().join("run");
    let planned = ready.create_run(&out, proctor_embedded_agent::agent_digest())?;
    let Some((results, _)) = run_separately(planned, false).await? else {
        return Ok(false);
    };
    let run = RunDir::open_read_only(&out)?;
    let mut wrong = Vec::new();
    for result in &results {
        let resolved = result.verdict.as_ref().map(|verdict| verdict.resolved);
        let what = match (result.arm_name.as_str(), resolved) {
            (_, None) => "has no verdict",
            ("gold", Some(false)) => "does not resolve it",
            ("noop", Some(true)) => "resolves it",
            _ => continue,
        };
        let reason = match &result.grading_failure {
            Some(failed) => Some(failed.fault.to_string()),
            None if resolved == Some(false) => gold_defect(&run, result, &chosen),
            None => None,
        };
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        wrong.push(format!("{}: {} {what}{reason}", result.task, result.arm_name));
    }
    if wrong.is_empty() {
        let tasks = count_with_noun(ids.len(), "task");
        tell!("checked {tasks}: gold resolves them, noop does not");
        return Ok(true);
    }
    let what = format!("--check-tasks: {}", wrong.join("; "));
    let hint =
        "run `proctor tasks validate` for details; fix these tasks, or exclude them with --tasks";
    Err(UserError::new(what).hint(hint).into())
}

/// Returns why a task's verifier can't judge any solution, if gold's run shows it.
fn gold_defect(run: &RunDir, result: &TrialResult, tasks: &[RunTask]) -> Option<String> {
    let id =
        TrialId { task: result.task.clone(), arm: result.arm.clone(), attempt: result.attempt };
    let task = tasks.iter().find(|one| one.task.id == result.task)?;
    verifier_defect(run, &id, &task.task)
}
