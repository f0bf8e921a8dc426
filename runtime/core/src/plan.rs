//! The plan: every trial of a run, in the order in which they start.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use proctor_types::{Arm, Task, TrialId};

use crate::given;

/// A task and the folder that its relative paths start from.
#[derive(Debug, Clone)]
pub struct PlannedTask {
    pub task: Arc<Task>,
    pub base_dir: PathBuf,
}

/// The task as an arm meets it: what its agent is told, and the time. Its id stays.
pub fn met(task: &Arc<Task>, arm: &Arm) -> Arc<Task> {
    let given = given(task, arm.statement);
    match &arm.sandbox.clock {
        Some(clock) => Arc::new(Task { clock: Some(clock.clone()), ..given.as_ref().clone() }),
        None => given,
    }
}

/// tasks x arms x attempts, without what is absent. The denominator of every rate is this plan.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub tasks: Vec<PlannedTask>,
    pub arms: Vec<Arc<Arm>>,
    pub attempts: u32,
    /// Trials that are no part of it: an import's files do not hold them.
    pub absent: BTreeSet<TrialId>,
    /// The trials that are carried out, where not all are: the others keep what they have.
    pub only: Option<BTreeSet<TrialId>>,
    /// Whether each model is asked once before the first trial.
    pub preflight: bool,
    /// When this process must have ended, such as the time limit of its job. Absent: no such moment.
    pub until: Option<Until>,
}

/// A moment at which this process must have ended.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    pub at: Instant,
    /// What a trial takes beside the limits of its agent and its tests.
    pub overhead: Duration,
}

impl Until {
    /// Whether a trial that starts now may still run then.
    pub(crate) fn comes_before(&self, task: &Task, arm: &Arm) -> bool {
        let needed = longest(task, arm).saturating_add(self.overhead);
        self.at.saturating_duration_since(Instant::now()) < needed
    }
}

/// The longest that a trial may take by the limits of its agent and its tests. An arm without a limit on wall time
/// counts with its tests alone.
pub fn longest(task: &Task, arm: &Arm) -> Duration {
    let seconds = arm.budget.wall_seconds.unwrap_or_default() + task.timeouts.grade_seconds;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

impl Plan {
    /// All trials: attempt by attempt, task by task, so that every arm has met the first task
    /// before any meets the second and an early look compares like with like. Each has its task as its arm
    /// is given it.
    pub fn trials(&self) -> Vec<(TrialId, PlannedTask, Arc<Arm>)> {
        let mut trials = Vec::new();
        for attempt in 1..=self.attempts {
            for task in &self.tasks {
                for arm in &self.arms {
                    let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt };
                    if self.absent.contains(&id) {
                        continue;
                    }
                    let given =
                        PlannedTask { task: met(&task.task, arm), base_dir: task.base_dir.clone() };
                    trials.push((id, given, Arc::clone(arm)));
                }
            }
        }
        trials
    }

    /// Those of them that are carried out.
    pub fn chosen(&self) -> Vec<(TrialId, PlannedTask, Arc<Arm>)> {
        let mut trials = self.trials();
        if let Some(only) = &self.only {
            trials.retain(|(id, ..)| only.contains(id));
        }
        trials
    }
}
