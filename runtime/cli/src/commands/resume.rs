//! `proctor resume`.

use std::{collections::BTreeSet, path::Path, process::ExitCode, sync::Arc};

use proctor_core::{Plan, PlannedTask};
use proctor_record::RunDir;
use proctor_types::{Environment, RunChange, RunRecord, RunTask, TrialId, plural};

use crate::{
    assemble::{self, Flakes, Grading},
    checks::first_of,
    commands::{carry_out::carry_out, resume_set, run::now},
    error::{CommandError, UserError},
    home, open_files,
};

/// Goes on with the plan that the run directory holds; nothing is read from the datasets again.
/// `sets` may change what trials share and where models are asked: see [`resume_set`].
pub async fn resume(
    path: &Path,
    sets: &[String],
    grading: Grading,
) -> Result<ExitCode, CommandError> {
    let run = RunDir::open(path).map_err(CommandError::of_run)?;
    let (mut record, damage): (RunRecord, _) = run.verify_run()?;
    if let Some(damage) = damage {
        run.restore_run()?;
        tell!("restored: {damage}");
    }
    if !sets.is_empty() {
        resume_set::change(&mut record, sets)?;
        run.write_run(&record)?;
    }
    let removed = run.removed_trials();
    if grading == Grading::Once && !removed.is_empty() {
        // To throw results away until they please is no measurement: the record says what is driven again.
        let names = removed.iter().map(ToString::to_string).collect::<Vec<_>>();
        let trials = plural(removed.len(), "trial");
        let change = format!("repeated: {trials} whose record was removed ({})", first_of(names));
        tell!("{change}");
        let proctor = env!("CARGO_PKG_VERSION").into();
        record.changes.push(RunChange { at: now(), proctor, change });
        run.write_run(&record)?;
    }
    go_on(run, &record, grading).await
}

/// Works on a run beside other runtimes. Nothing of its plan is written.
pub async fn join(path: &Path) -> Result<ExitCode, CommandError> {
    let run = RunDir::join(path).map_err(CommandError::of_run)?;
    let record = run.read_run()?;
    go_on(run, &record, Grading::Once).await
}

async fn go_on(
    run: RunDir,
    record: &RunRecord,
    grading: Grading,
) -> Result<ExitCode, CommandError> {
    let bare = |named: &&RunTask| named.task.environment == Environment::default();
    if let Some(named) = record.tasks.iter().find(bare) {
        let what = format!("nothing is known of the task `{}` but its name", named.task.id);
        let hint = "it was imported without a dataset: import the files again with --tasks DATASET";
        return Err(UserError::new(what).hint(hint).into());
    }
    let mut plan = plan_of(record);
    if grading == Grading::Anew {
        // What is graded anew is what was submitted. Driving the rest would ask models, which is `resume`'s.
        plan.only = Some(finished(&run, &plan));
    } else {
        assemble::check_models(&record.arms, &|_, error| error)?;
    }
    open_files::check(record.jobs, plan.trials().len(), record.arms.iter())?;
    let flakes = Flakes::of(record);
    let cache = home::cache()?;
    let backends = assemble::backends(&record.arms, &cache).await?;
    carry_out(run, plan, record.jobs, backends, &cache, grading, flakes).await
}

fn finished(run: &RunDir, plan: &Plan) -> BTreeSet<TrialId> {
    plan.trials().into_iter().map(|(id, ..)| id).filter(|id| run.check(id).finished).collect()
}

/// The plan that a run directory holds.
pub fn plan_of(record: &RunRecord) -> Plan {
    let planned = record.tasks.iter().map(|named| PlannedTask {
        task: Arc::new(named.task.clone()),
        base_dir: named.base_dir.clone(),
    });
    let arms = record.arms.iter().cloned().map(Arc::new).collect();
    Plan {
        tasks: planned.collect(),
        arms,
        attempts: record.attempts,
        absent: record.absent.clone(),
        ..Plan::default()
    }
}
