//! A plan in its run directory.

use std::path::Path;

use proctor_record::{RunDir, now};
use proctor_run::Plan;
use proctor_types::{RunChange, RunRecord};

use crate::{PlanContext, PlanError, check_models, open_files};

/// A plan in its run directory, which this process has locked.
pub struct PlannedRun {
    /// The run directory.
    pub run: RunDir,
    /// The contents of `run.json`.
    pub record: RunRecord,
    /// The plan that `run.json` contains.
    pub plan: Plan,
}

impl PlannedRun {
    /// Writes a plan that was derived from another run to `path`. This directory may already
    /// contain finished trials of the same plan.
    ///
    /// # Errors
    /// Fails if a model cannot be called, the limit on open files is too low, or the plan cannot be
    /// written.
    pub fn from_record(
        path: &Path,
        record: RunRecord,
        context: PlanContext<'_>,
    ) -> Result<Self, PlanError> {
        let plan = Plan::from_record(&record);
        check_record(&record, &plan, context)?;
        let run = match RunDir::open(path) {
            Ok(run) => run,
            Err(_) => RunDir::create(path)?,
        };
        run.write_run(&record)?;
        Ok(Self { run, record, plan })
    }

    /// Adds a note about a change of the plan to the record, for human readers.
    ///
    /// # Errors
    /// Fails if the plan cannot be written.
    pub fn add_note(&mut self, change: String) -> Result<(), PlanError> {
        add_note(&self.run, &mut self.record, change)
    }
}

/// Rejects a plan whose models cannot be called, or that needs too many open files.
pub(crate) fn check_record(
    record: &RunRecord,
    plan: &Plan,
    context: PlanContext<'_>,
) -> Result<(), PlanError> {
    check_models(&record.arms, context.check_script, &|_, error| error)?;
    open_files::check_limit(record.jobs, plan.trials().len(), record.arms.iter())?;
    Ok(())
}

/// Adds a note about a change of the plan to the record.
pub(crate) fn add_note(
    run: &RunDir,
    record: &mut RunRecord,
    change: String,
) -> Result<(), PlanError> {
    let proctor = env!("CARGO_PKG_VERSION").into();
    record.changes.push(RunChange { at: now(), proctor, change });
    Ok(run.write_run(record)?)
}
