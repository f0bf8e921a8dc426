//! The plan: every trial of a run, in the order in which the trials start.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_types::{Arm, RunRecord, Task, TrialId};

use crate::apply_statement;

/// A task and the directory that its relative paths are resolved against.
#[derive(Debug, Clone)]
pub struct PlannedTask {
    pub task: Arc<Task>,
    pub base_dir: PathBuf,
}

/// Returns the task as an arm's agent receives it, with the arm's statement options and clock. The
/// ID does not change.
pub fn task_for_arm(task: &Arc<Task>, arm: &Arm) -> Arc<Task> {
    let given = apply_statement(task, arm.statement);
    match &arm.sandbox.clock {
        Some(clock) => Arc::new(Task { clock: Some(clock.clone()), ..given.as_ref().clone() }),
        None => given,
    }
}

/// The plan: tasks x arms x attempts, without the absent trials. Reports compute rates over all
/// trials of the plan.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub tasks: Vec<PlannedTask>,
    pub arms: Vec<Arc<Arm>>,
    pub attempts: u32,
    /// Trials that are missing from an import's files.
    pub absent_trials: BTreeSet<TrialId>,
    /// The trials to run; `None` for all. Other trials keep their results.
    pub trials_to_run: Option<BTreeSet<TrialId>>,
    /// Whether to send test requests to the models and check the plan's images before the first
    /// trial.
    pub preflight: bool,
    /// The deadline of this process, for example because its cluster job has a time limit. `None`
    /// means no limit.
    pub deadline: Option<Deadline>,
}

/// A deadline for this process.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    pub instant: Instant,
    /// Time that a trial may take beyond the limits of its agent and tests.
    pub overhead: Duration,
}

impl Deadline {
    /// Whether a trial that starts now might not end before the deadline.
    pub(crate) fn is_too_close_for(&self, task: &Task, arm: &Arm) -> bool {
        let needed = max_trial_duration(task, arm).saturating_add(self.overhead);
        self.instant.saturating_duration_since(Instant::now()) < needed
    }
}

/// Returns the longest time that a trial may take according to the limits of its agent and tests.
/// If the arm has no wall-time limit, only the limits of the tests count.
pub fn max_trial_duration(task: &Task, arm: &Arm) -> Duration {
    let seconds = arm.budget.wall_seconds.unwrap_or_default() + task.timeouts.grade_seconds;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

impl Plan {
    /// Returns the plan of a recorded run.
    pub fn from_record(record: &RunRecord) -> Self {
        let planned = record.tasks.iter().map(|named| PlannedTask {
            task: Arc::new(named.task.clone()),
            base_dir: named.base_dir.clone(),
        });
        let arms = record.arms.iter().cloned().map(Arc::new).collect();
        Self {
            tasks: planned.collect(),
            arms,
            attempts: record.attempts,
            absent_trials: record.absent.clone(),
            ..Self::default()
        }
    }

    /// Returns all trials, ordered by attempt, then task, then arm. Every arm runs the first task
    /// before any arm runs the second, so that early results are comparable. Each entry contains
    /// the task as its arm receives it.
    pub fn trials(&self) -> Vec<(TrialId, PlannedTask, Arc<Arm>)> {
        let mut trials = Vec::new();
        for attempt in 1..=self.attempts {
            for task in &self.tasks {
                for arm in &self.arms {
                    let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt };
                    if self.absent_trials.contains(&id) {
                        continue;
                    }
                    let given = PlannedTask {
                        task: task_for_arm(&task.task, arm),
                        base_dir: task.base_dir.clone(),
                    };
                    trials.push((id, given, Arc::clone(arm)));
                }
            }
        }
        trials
    }

    /// Returns the trials to run.
    pub fn selected_trials(&self) -> Vec<(TrialId, PlannedTask, Arc<Arm>)> {
        let mut trials = self.trials();
        if let Some(only) = &self.trials_to_run {
            trials.retain(|(id, ..)| only.contains(id));
        }
        trials
    }
}
