//! `proctor rerun RUN --select faulted|missing|all`: re-runs trials of a run. Earlier results are
//! kept as discarded tries.

use std::{collections::BTreeSet, path::Path, process::ExitCode};

use proctor_record::{Checked, RunDir, now};
use proctor_types::{Ending, RunChange, RunRecord, TrialId, plural};

use crate::{
    args::Select,
    assemble::{self, Flakes, Grading},
    commands::{carry_out::carry_out, resume::plan_of},
    error::CommandError,
    home, open_files, rules, workers,
};

/// Maximum number of trials that are listed by name; beyond that only their number is shown.
const NAMED: usize = 20;

pub async fn rerun(path: &Path, select: Select) -> Result<ExitCode, CommandError> {
    let run = RunDir::open(path).map_err(CommandError::of_run)?;
    workers::expect_none(path)?;
    let (mut record, damage): (RunRecord, _) = run.verify_run()?;
    if let Some(damage) = damage {
        run.restore_run()?;
        tell!("restored: {damage}");
    }
    rules::expect_present(&run, &record)?;
    let mut plan = plan_of(&record);
    let mut chosen = Vec::new();
    for (id, _, arm) in plan.trials() {
        let checked = run.check(&id);
        if let Some(why) = reason(&checked, select) {
            chosen.push((id, arm.name.clone(), why));
        }
    }
    if chosen.is_empty() {
        tell!("nothing to re-run: no trial of {} is {}", path.display(), select.name());
        return Ok(ExitCode::SUCCESS);
    }
    tell!("re-running {}:", plural(chosen.len(), "trial"));
    for (id, name, why) in chosen.iter().take(NAMED) {
        tell!("  {}/{name}/{}: {why}", id.task, id.attempt);
    }
    if let Some(more) = chosen.len().checked_sub(NAMED).filter(|more| *more > 0) {
        tell!("  and {more} more");
    }
    // Reject everything that can be rejected before setting anything aside.
    open_files::check(record.jobs, chosen.len(), record.arms.iter())?;
    assemble::check_models(&record.arms, &|_, error| error)?;
    let (cache, kept) = (home::cache()?, assemble::cache_of(&record)?);
    let backends = assemble::backends(&record.arms, &cache, &kept).await?;
    let change = format!("re-run: {} ({})", plural(chosen.len(), "trial"), select.name());
    let proctor = env!("CARGO_PKG_VERSION").into();
    record.changes.push(RunChange { at: now(), proctor, change });
    run.write_run(&record)?;
    let mut only = BTreeSet::new();
    for (id, ..) in chosen {
        // Unfinished trials continue as in `resume`.
        if select != Select::Missing {
            put_aside(&run, &id)?;
        }
        only.insert(id);
    }
    plan.only = Some(only);
    let flakes = Flakes::of(&record, &assemble::say);
    carry_out(run, plan, record.jobs, backends, &cache, Grading::Once, flakes).await
}

/// Sets aside what exists of a trial as a discarded try, as in a resumed trial.
fn put_aside(run: &RunDir, id: &TrialId) -> Result<(), CommandError> {
    let dir = run.trial_path(id);
    if dir.path().exists() {
        dir.begin_try(dir.next_try()?)?;
    }
    Ok(())
}

/// Why a trial is re-run; `None` if it is not.
fn reason(checked: &Checked, select: Select) -> Option<String> {
    let lost = checked.is_lost();
    let fault = checked.outcome.as_ref().and_then(|outcome| match &outcome.ending {
        Ending::InfrastructureFault { fault } => Some(fault.what.clone()),
        _ => None,
    });
    let missing = match (&checked.outcome, &checked.verdict) {
        (None, _) => Some("not ended"),
        _ if fault.is_some() || lost => None,
        (Some(outcome), _) if outcome.ending.is_unfinished() => Some("ended by a shared limit"),
        (_, None) => Some("not graded"),
        _ => None,
    };
    let missing = missing.map(str::to_owned);
    let faulted = fault.or_else(|| lost.then(|| "damaged record".to_owned()));
    match select {
        Select::Faulted => faulted,
        Select::Missing => missing,
        Select::All => faulted.or(missing).or_else(|| Some("all trials".to_owned())),
    }
}
