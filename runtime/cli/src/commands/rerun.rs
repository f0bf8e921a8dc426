//! `proctor rerun RUN --select faulted|missing|all`: re-runs trials of a run. Earlier results are
//! kept as discarded tries.

use std::{path::Path, process::ExitCode};

use proctor_plan::{Continuation, PlannedRun, ReopenedRun};
use proctor_record::{CheckedTrial, RunDir};
use proctor_run::Plan;
use proctor_types::{Ending, RunRecord, TrialId, count_with_noun};

use crate::{
    args::RerunSelection,
    assemble::{self, FlakyTests, RegradePolicy},
    cache_dir,
    commands::execute::{PreparedRun, execute_and_report},
    error::CommandError,
};

/// Maximum number of trials listed by name. The others are only counted.
const MAX_LISTED_TRIALS: usize = 20;

pub async fn rerun(path: &Path, selection: RerunSelection) -> Result<ExitCode, CommandError> {
    let reopened = ReopenedRun::open(path, Continuation::NewTrials, &assemble::print_message)?;
    let mut chosen = Vec::new();
    for (id, _, arm) in Plan::from_record(reopened.record()).trials() {
        let checked = reopened.run().check_trial(&id);
        if let Some(why) = rerun_reason(&checked, selection) {
            chosen.push((id, arm.name.clone(), why));
        }
    }
    if chosen.is_empty() {
        tell!("nothing to re-run: no trial of {} is {}", path.display(), selection.name());
        return Ok(ExitCode::SUCCESS);
    }
    tell!("re-running {}:", count_with_noun(chosen.len(), "trial"));
    for (id, name, why) in chosen.iter().take(MAX_LISTED_TRIALS) {
        tell!("  {}/{name}/{}: {why}", id.task, id.attempt);
    }
    if let Some(more) = chosen.len().checked_sub(MAX_LISTED_TRIALS).filter(|more| *more > 0) {
        tell!("  and {more} more");
    }
    // Run every check before moving any files, so that an error leaves the run unchanged.
    let (cache, catalog) = (cache_dir::default_cache_dir()?, assemble::scaffold_catalog()?);
    let (jobs, world) = (reopened.record().jobs, assemble::plan_context(&cache, &catalog));
    let only = chosen.iter().map(|(id, ..)| id.clone()).collect();
    let mut planned = reopened.into_planned_run(Some(only), jobs, world)?;
    let RunRecord { arms, config, .. } = &planned.record;
    let backends = assemble::start_backends(arms, &cache, &config.cache).await?;
    planned.add_note(format!(
        "re-run: {} ({})",
        count_with_noun(chosen.len(), "trial"),
        selection.name()
    ))?;
    let PlannedRun { run, record, plan } = planned;
    // Unfinished trials continue as in `resume`.
    if selection != RerunSelection::Missing {
        for (id, ..) in &chosen {
            discard_try(&run, id)?;
        }
    }
    let flakes = FlakyTests::from_record(&record, &assemble::print_message);
    let (cache, grading) = (cache.as_path(), RegradePolicy::ReuseVerdict);
    execute_and_report(PreparedRun {
        run,
        plan,
        jobs,
        backends,
        cache,
        regrade_policy: grading,
        flaky_tests: flakes,
    })
    .await
}

/// Moves a trial's files aside as a discarded try, as `resume` does.
fn discard_try(run: &RunDir, id: &TrialId) -> Result<(), CommandError> {
    let dir = run.trial_dir(id);
    if dir.path().exists() {
        dir.begin_try(dir.next_try_number()?)?;
    }
    Ok(())
}

/// Returns why a trial is re-run, or `None` if it is not.
fn rerun_reason(checked_trial: &CheckedTrial, selection: RerunSelection) -> Option<String> {
    let lost = checked_trial.is_unrecoverable();
    let fault = checked_trial.outcome.as_ref().and_then(|outcome| match &outcome.ending {
        Ending::InfrastructureFault { fault } => Some(fault.what.clone()),
        _ => None,
    });
    let missing = match (&checked_trial.outcome, &checked_trial.verdict) {
        (None, _) => Some("not ended"),
        _ if fault.is_some() || lost => None,
        (Some(outcome), _) if outcome.ending.is_unfinished() => Some("ended by a shared limit"),
        (_, None) => Some("not graded"),
        _ => None,
    };
    let missing = missing.map(str::to_owned);
    let faulted = fault.or_else(|| lost.then(|| "corrupt record".to_owned()));
    match selection {
        RerunSelection::Faulted => faulted,
        RerunSelection::Missing => missing,
        RerunSelection::All => faulted.or(missing).or_else(|| Some("all trials".to_owned())),
    }
}
