//! `proctor resume`.

use std::{collections::BTreeSet, path::Path, process::ExitCode, time::Duration};

use proctor_engines::{Inquiry, Start};
use proctor_record::{
    RunDir,
    find::{Found, planned},
    now,
};
use proctor_run::{Plan, Until};
use proctor_types::{Environment, RULES, RunChange, RunRecord, RunTask, TrialId, first_of, plural};

use crate::{
    assemble::{self, Flakes, Grading},
    commands::carry_out::carry_out,
    error::{CommandError, UserError},
    home, open_files, resume_set, rules, workers,
};

/// The user's options for resuming a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResumeOptions {
    /// Concurrent trials. Absent: the planned number.
    pub jobs: Option<usize>,
    /// Finished trials whose record is gone may run again.
    pub confirm: bool,
    /// Run here even if an engine's workers run the trials.
    pub here: bool,
}

/// Continues the plan in the run directory without reading the datasets again. `sets` may change
/// what trials share and the models' endpoints: see [`resume_set`].
pub async fn resume(
    path: &Path,
    sets: &[String],
    options: ResumeOptions,
    grading: Grading,
) -> Result<ExitCode, CommandError> {
    let run = RunDir::open(path).map_err(CommandError::of_run)?;
    workers::expect_none(path)?;
    if grading == Grading::Once && !options.here {
        workers::expect_no_engine(path)?;
    }
    let (mut record, damage): (RunRecord, _) = run.verify_run()?;
    if let Some(damage) = damage {
        run.restore_run()?;
        tell!("restored: {damage}");
    }
    match grading {
        Grading::Once => rules::expect_present_or_finished(&run, &record)?,
        Grading::Anew if record.rules != RULES => {
            let change = format!(
                "graded again under rules {RULES}, with outcomes under rules {}",
                record.rules
            );
            let proctor = env!("CARGO_PKG_VERSION").into();
            record.changes.push(RunChange { at: now(), proctor, change });
            run.write_run(&record)?;
        }
        Grading::Anew => {}
    }
    // Grading alone runs no agent.
    let gone = match grading {
        Grading::Once => gone_trials(&run, &record, options)?,
        Grading::Anew => BTreeSet::new(),
    };
    if !sets.is_empty() {
        resume_set::change(&mut record, sets)?;
        run.write_run(&record)?;
    }
    if !gone.is_empty() {
        // Discarding results until they look right is not a measurement, so the record lists what
        // runs again.
        let names = gone.iter().map(ToString::to_string).collect();
        let trials = plural(gone.len(), "trial");
        let change = format!("re-run: {trials} whose records were removed ({})", first_of(names));
        tell!("{change}");
        let proctor = env!("CARGO_PKG_VERSION").into();
        record.changes.push(RunChange { at: now(), proctor, change });
        run.write_run(&record)?;
    }
    go_on(run, &record, options, grading, None).await
}

/// Works on a run next to other workers until no trial is left. Its plan is not written.
/// `time_left`: when this process must have ended.
pub async fn join(
    path: &Path,
    options: ResumeOptions,
    time_left: Option<Duration>,
) -> Result<ExitCode, CommandError> {
    let inquiry = Inquiry::of(path);
    let run = RunDir::join(path).map_err(CommandError::of_run)?;
    let run = run.asking_about_jobs(move |worker| {
        let job = worker.job.as_deref()?;
        inquiry.ending(&Start { job, restarts: worker.restarts, node: &worker.host })
    });
    let record = run.read_run()?;
    workers::expect_this_version(path)?;
    rules::expect_present_or_finished(&run, &record)?;
    gone_trials(&run, &record, options)?;
    let until = time_left.map(workers::until).transpose()?;
    go_on(run, &record, options, Grading::Once, until).await
}

/// Finished trials that would run again, because their record was removed or is in a directory of
/// no planned trial.
///
/// # Errors
/// There are some, or there may be, and the user did not confirm paying for them again.
fn gone_trials(
    run: &RunDir,
    record: &RunRecord,
    options: ResumeOptions,
) -> Result<BTreeSet<TrialId>, CommandError> {
    let planned: Vec<TrialId> = planned(record).iter().map(Found::id).collect();
    let unplanned = run.unplanned(&planned);
    let folders: Vec<_> = unplanned.iter().map(|one| one.folder.display().to_string()).collect();
    if !folders.is_empty() {
        tell!("note: these folders belong to no planned trial: {}", first_of(folders.clone()));
    }
    let is_missing = |id: &&TrialId| !run.trial_path(id).trajectory().exists();
    let moved = planned.iter().filter(|id| unplanned.iter().any(|one| one.trials.contains(*id)));
    let moved = moved.filter(is_missing);
    let mut gone: BTreeSet<TrialId> = moved.cloned().collect();
    gone.extend(run.removed_trials());
    // A journal of an unplanned trial may belong to a trial whose id has changed.
    let is_foreign = unplanned
        .iter()
        .any(|one| one.journals > 0 && one.trials.iter().all(|id| !planned.contains(id)));
    let missing = if is_foreign { planned.iter().filter(is_missing).count() } else { 0 };
    if options.confirm || (gone.is_empty() && !(is_foreign && missing > 0)) {
        return Ok(gone);
    }
    let what = match gone.len() {
        0 => format!(
            "{} to run, but these folders contain trials that are not in the plan: {}",
            plural(missing, "trial"),
            first_of(folders)
        ),
        count => format!(
            "{} would run again and be billed twice: {}",
            plural(count, "trial"),
            first_of(gone.iter().map(ToString::to_string).collect())
        ),
    };
    let hint = "move the folders back, or run these trials with --confirm";
    Err(UserError::new(what).hint(hint).into())
}

async fn go_on(
    run: RunDir,
    record: &RunRecord,
    options: ResumeOptions,
    grading: Grading,
    until: Option<Until>,
) -> Result<ExitCode, CommandError> {
    let bare = |named: &&RunTask| named.task.environment == Environment::default();
    if let Some(named) = record.tasks.iter().find(bare) {
        let what = format!("only the name of the task `{}` is known", named.task.id);
        let hint =
            "the run was imported without a dataset; import the files again with --tasks DATASET";
        return Err(UserError::new(what).hint(hint).into());
    }
    let mut plan = Plan { until, ..plan_of(record) };
    if grading == Grading::Anew {
        // Regrade what was submitted. Running the rest would call models, which is `resume`'s job.
        plan.only = Some(finished(&run, &plan));
    } else {
        assemble::check_models(&record.arms, &|_, error| error)?;
    }
    let most = if run.is_shared() { workers::jobs(record)? } else { record.jobs };
    let jobs = options.jobs.unwrap_or(most);
    open_files::check(jobs, plan.trials().len(), record.arms.iter())?;
    let flakes = Flakes::of(record, &assemble::say);
    let (cache, kept) = (home::cache()?, assemble::cache_of(record)?);
    let backends = assemble::backends(&record.arms, &cache, &kept).await?;
    carry_out(run, plan, jobs, backends, &cache, grading, flakes).await
}

fn finished(run: &RunDir, plan: &Plan) -> BTreeSet<TrialId> {
    plan.trials().into_iter().map(|(id, ..)| id).filter(|id| run.check(id).finished).collect()
}

/// The plan in a run directory.
pub fn plan_of(record: &RunRecord) -> Plan {
    Plan::of(record)
}
