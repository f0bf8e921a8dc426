//! Reopens a recorded run so that it can be continued. Checks the run and its plan first.

use std::{collections::BTreeSet, path::Path};

use proctor_record::{
    RunDir,
    trial_lookup::{PlannedTrial, planned_trials},
};
use proctor_run::Plan;
use proctor_scaffold_api::ProgressSink;
use proctor_types::{
    Environment, RULES_VERSION, RunRecord, RunTask, TrialId, UserError, count_with_noun,
    join_first_few,
};

use crate::{
    PlanContext, PlanError, PlannedRun, check_models, open_files, planned_run::add_note,
    resume_set, rules, workers,
};

/// How to continue a recorded run. The choice determines whether a run with an older version of the
/// rules is accepted, and whether models are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// Run the missing trials. A run that uses another version of the rules is accepted only if no
    /// trials are missing.
    MissingTrials,
    /// Run new trials or repeat existing ones. The run must use the current version of the rules.
    NewTrials,
    /// Grade submitted patches. No agent runs and no model is called.
    Gradings,
}

/// A recorded run that may be continued: no other process changes the run, its plan is complete,
/// and its rules version permits the continuation.
pub struct ReopenedRun {
    pub(crate) run: RunDir,
    pub(crate) record: RunRecord,
    continuation: Continuation,
}

impl ReopenedRun {
    /// Opens a run for this process only. If the plan is corrupt, restores the plan from its copy.
    ///
    /// # Errors
    /// Fails if there is no run, if another process or a worker uses the run, or if the run's rules
    /// version does not permit the continuation.
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
        Self::from_checked_record(run, record, continuation)
    }

    /// Opens a run that other workers may also use. Does not write the plan.
    ///
    /// # Errors
    /// Fails if the plan cannot be read, or if the run's rules version does not permit further
    /// trials.
    pub fn open_shared(run: RunDir) -> Result<Self, PlanError> {
        let record = run.read_run()?;
        Self::from_checked_record(run, record, Continuation::MissingTrials)
    }

    fn from_checked_record(
        run: RunDir,
        record: RunRecord,
        continuation: Continuation,
    ) -> Result<Self, PlanError> {
        let mut reopened = Self { run, record, continuation };
        let Self { run, record, .. } = &reopened;
        match continuation {
            Continuation::MissingTrials => rules::require_rules_unless_finished(run, record)?,
            Continuation::NewTrials => rules::require_current_rules(run, record)?,
            Continuation::Gradings if record.rules != RULES_VERSION => {
                let of = record.rules;
                let change = format!(
                    "regraded under rules version {RULES_VERSION}; the original outcomes used version {of}"
                );
                reopened.add_note(change)?;
            }
            Continuation::Gradings => {}
        }
        Ok(reopened)
    }

    /// Returns the run directory.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Returns the contents of `run.json`.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Returns finished trials that would run again because their record was removed, or moved to a
    /// directory that matches no planned trial. `is_confirmed` says whether the user agreed to pay
    /// for them again.
    ///
    /// # Errors
    /// Fails if there are such trials, or if there may be, and `is_confirmed` is not set.
    pub fn find_lost_finished_trials(
        &self,
        is_confirmed: bool,
        say: ProgressSink<'_>,
    ) -> Result<BTreeSet<TrialId>, PlanError> {
        let Self { run, record, .. } = self;
        let planned: Vec<TrialId> = planned_trials(record).iter().map(PlannedTrial::id).collect();
        let unplanned = run.unplanned_dirs(&planned);
        let folders: Vec<_> =
            unplanned.iter().map(|one| one.folder.display().to_string()).collect();
        if !folders.is_empty() {
            say(format!(
                "note: these folders belong to no planned trial: {}",
                join_first_few(folders.clone())
            ));
        }
        let is_missing = |id: &&TrialId| !run.trial_dir(id).trajectory_path().exists();
        let moved =
            planned.iter().filter(|id| unplanned.iter().any(|one| one.trials.contains(*id)));
        let moved = moved.filter(is_missing);
        let mut gone: BTreeSet<TrialId> = moved.cloned().collect();
        gone.extend(run.removed_trials());
        // A journal that belongs to no planned trial may belong to a trial whose ID has changed.
        let is_foreign = unplanned
            .iter()
            .any(|one| one.journal_count > 0 && one.trials.iter().all(|id| !planned.contains(id)));
        let missing = if is_foreign { planned.iter().filter(is_missing).count() } else { 0 };
        if is_confirmed || (gone.is_empty() && !(is_foreign && missing > 0)) {
            return Ok(gone);
        }
        let what = match gone.len() {
            0 => format!(
                "{} to run, but these folders contain trials that are not in the plan: {}",
                count_with_noun(missing, "trial"),
                join_first_few(folders)
            ),
            count => format!(
                "{} already finished, but would run and be paid for a second time: {}",
                count_with_noun(count, "trial"),
                join_first_few(gone.iter().map(ToString::to_string).collect())
            ),
        };
        let hint = "move the folders back, or run these trials with --confirm";
        Err(UserError::new(what).hint(hint).into())
    }

    /// Changes shared limits and the models' endpoints, as `resume --set` does.
    ///
    /// # Errors
    /// Fails if a key is a factor or has an invalid value, or if the plan cannot be written.
    pub fn apply_overrides(&mut self, overrides: &[String]) -> Result<(), PlanError> {
        if overrides.is_empty() {
            return Ok(());
        }
        resume_set::apply_overrides(&mut self.record, overrides)?;
        Ok(self.run.write_run(&self.record)?)
    }

    /// Adds a note about a change of the plan to the record, for human readers.
    ///
    /// # Errors
    /// Fails if the plan cannot be written.
    pub fn add_note(&mut self, change: String) -> Result<(), PlanError> {
        add_note(&self.run, &mut self.record, change)
    }

    /// Checks the plan on this machine. `trials_to_run` restricts the trials to run; `jobs` is the
    /// number of concurrent trials.
    ///
    /// # Errors
    /// Fails if only a task's name is known, a model cannot be called, or the limit on open files
    /// is too low.
    pub fn into_planned_run(
        self,
        trials_to_run: Option<BTreeSet<TrialId>>,
        jobs: usize,
        context: PlanContext<'_>,
    ) -> Result<PlannedRun, PlanError> {
        let Self { run, record, continuation } = self;
        let bare = |named: &&RunTask| named.task.environment == Environment::default();
        if let Some(named) = record.tasks.iter().find(bare) {
            let what = format!("only the name of task `{}` is known", named.task.id);
            let hint = "the run was imported without a dataset: import the files again with --tasks DATASET";
            return Err(UserError::new(what).hint(hint).into());
        }
        let mut plan = Plan { trials_to_run, ..Plan::from_record(&record) };
        if continuation == Continuation::Gradings {
            // Grade only submitted work. The other trials would call models, so they are left to
            // `resume`.
            let trials = plan.selected_trials().into_iter().map(|(id, ..)| id);
            plan.trials_to_run =
                Some(trials.filter(|id| run.check_trial(id).is_finished).collect());
        } else {
            check_models(&record.arms, context.check_script, &|_, error| error)?;
        }
        open_files::check_limit(jobs, plan.selected_trials().len(), record.arms.iter())?;
        Ok(PlannedRun { run, record, plan })
    }
}
