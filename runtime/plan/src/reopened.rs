//! Reopens a recorded run to continue it: opens, checks and plans it.

use std::{collections::BTreeSet, path::Path};

use proctor_record::{
    RunDir,
    trial_lookup::{PlannedTrial, planned_trials},
};
use proctor_run::Plan;
use proctor_scaffold_api::ProgressSink;
use proctor_types::{
    Environment, RULES_VERSION, RunRecord, RunTask, TrialId, UserError, join_first_few, plural,
};

use crate::{
    PlanContext, PlanError, PlannedRun, check_models, open_files, planned_run::add_note,
    resume_set, rules, workers,
};

/// How to continue a recorded run. This determines which rules the run may have been made under,
/// and whether its models are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// Run the missing trials. A run that was made under other rules must be complete, so that
    /// nothing is left to run.
    Rest,
    /// Run new trials or repeat existing ones. The run must use the current rules.
    More,
    /// Grade submitted patches. No agent runs and no model is called.
    Gradings,
}

/// A recorded run that may be continued: no other process changes it, its plan is complete, and
/// its rules allow the continuation.
pub struct ReopenedRun {
    pub(crate) run: RunDir,
    pub(crate) record: RunRecord,
    continuation: Continuation,
}

impl ReopenedRun {
    /// Opens a run for this process only. If the plan is corrupted, restores it from its copy.
    ///
    /// # Errors
    /// There is no run, another process or a worker uses it, or its rules forbid the continuation.
    pub fn open(
        path: &Path,
        continuation: Continuation,
        say: ProgressSink<'_>,
    ) -> Result<Self, PlanError> {
        let run = RunDir::open(path)?;
        workers::reject_live_workers(path)?;
        let (record, damage) = run.verify_run()?;
        if let Some(damage) = damage {
            run.restore_run()?;
            say(format!("restored: {damage}"));
        }
        Self::new_checked(run, record, continuation)
    }

    /// Opens a run that other workers may also use. Its plan is not written.
    ///
    /// # Errors
    /// The plan cannot be read, or its rules forbid further trials.
    pub fn join(run: RunDir) -> Result<Self, PlanError> {
        let record = run.read_run()?;
        Self::new_checked(run, record, Continuation::Rest)
    }

    fn new_checked(
        run: RunDir,
        record: RunRecord,
        continuation: Continuation,
    ) -> Result<Self, PlanError> {
        let mut reopened = Self { run, record, continuation };
        let Self { run, record, .. } = &reopened;
        match continuation {
            Continuation::Rest => rules::require_rules_unless_finished(run, record)?,
            Continuation::More => rules::require_current_rules(run, record)?,
            Continuation::Gradings if record.rules != RULES_VERSION => {
                let of = record.rules;
                let change = format!(
                    "regraded under rules {RULES_VERSION}; the outcomes are from rules {of}"
                );
                reopened.note(change)?;
            }
            Continuation::Gradings => {}
        }
        Ok(reopened)
    }

    /// The run directory.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// `run.json`.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Returns finished trials that would run again because their record was removed, or moved to a
    /// directory that matches no planned trial. `confirm` says whether the user agreed to pay for
    /// them again.
    ///
    /// # Errors
    /// There are or may be such trials, and the user did not confirm.
    pub fn lost_finished_trials(
        &self,
        confirm: bool,
        say: ProgressSink<'_>,
    ) -> Result<BTreeSet<TrialId>, PlanError> {
        let Self { run, record, .. } = self;
        let planned: Vec<TrialId> = planned_trials(record).iter().map(PlannedTrial::id).collect();
        let unplanned = run.unplanned_dirs(&planned);
        let folders: Vec<_> =
            unplanned.iter().map(|one| one.folder.display().to_string()).collect();
        if !folders.is_empty() {
            say(format!(
                "note: no planned trial has these folders: {}",
                join_first_few(folders.clone())
            ));
        }
        let is_missing = |id: &&TrialId| !run.trial_dir(id).trajectory_path().exists();
        let moved =
            planned.iter().filter(|id| unplanned.iter().any(|one| one.trials.contains(*id)));
        let moved = moved.filter(is_missing);
        let mut gone: BTreeSet<TrialId> = moved.cloned().collect();
        gone.extend(run.removed_trials());
        // The journal of an unplanned trial may belong to a trial whose ID has changed.
        let is_foreign = unplanned
            .iter()
            .any(|one| one.journals > 0 && one.trials.iter().all(|id| !planned.contains(id)));
        let missing = if is_foreign { planned.iter().filter(is_missing).count() } else { 0 };
        if confirm || (gone.is_empty() && !(is_foreign && missing > 0)) {
            return Ok(gone);
        }
        let what = match gone.len() {
            0 => format!(
                "{} to run, but these folders contain trials that are not in the plan: {}",
                plural(missing, "trial"),
                join_first_few(folders)
            ),
            count => format!(
                "{} already finished but would run, and be charged, again: {}",
                plural(count, "trial"),
                join_first_few(gone.iter().map(ToString::to_string).collect())
            ),
        };
        let hint = "move the folders back, or run these trials with --confirm";
        Err(UserError::new(what).hint(hint).into())
    }

    /// Changes shared limits and the models' endpoints, as `resume --set` does.
    ///
    /// # Errors
    /// A key is a factor or has a wrong value, or the plan cannot be written.
    pub fn apply_overrides(&mut self, sets: &[String]) -> Result<(), PlanError> {
        if sets.is_empty() {
            return Ok(());
        }
        resume_set::apply_overrides(&mut self.record, sets)?;
        Ok(self.run.write_run(&self.record)?)
    }

    /// Notes a change of the plan in the record, for human readers.
    ///
    /// # Errors
    /// The plan cannot be written.
    pub fn note(&mut self, change: String) -> Result<(), PlanError> {
        add_note(&self.run, &mut self.record, change)
    }

    /// Checks the plan on this machine. `only` restricts the trials to run; `jobs` is the number
    /// of concurrent trials.
    ///
    /// # Errors
    /// Only a task's name is known, a model cannot be called, or the limit on open files is too
    /// low.
    pub fn check(
        self,
        only: Option<BTreeSet<TrialId>>,
        jobs: usize,
        world: PlanContext<'_>,
    ) -> Result<PlannedRun, PlanError> {
        let Self { run, record, continuation } = self;
        let bare = |named: &&RunTask| named.task.environment == Environment::default();
        if let Some(named) = record.tasks.iter().find(bare) {
            let what = format!("only the name of task `{}` is known", named.task.id);
            let hint =
                "it was imported without a dataset: import the files again with --tasks DATASET";
            return Err(UserError::new(what).hint(hint).into());
        }
        let mut plan = Plan { only, ..Plan::from_record(&record) };
        if continuation == Continuation::Gradings {
            // Grade only submitted work. Running the rest would call models, which is `resume`'s
            // job.
            let trials = plan.selected_trials().into_iter().map(|(id, ..)| id);
            plan.only = Some(trials.filter(|id| run.check(id).finished).collect());
        } else {
            check_models(&record.arms, world.script, &|_, error| error)?;
        }
        open_files::check(jobs, plan.selected_trials().len(), record.arms.iter())?;
        Ok(PlannedRun { run, record, plan })
    }
}
