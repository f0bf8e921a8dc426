//! The plan: every trial of a run, in the order in which they start.

use std::{path::PathBuf, sync::Arc};

use proctor_types::{Arm, Task, TrialId};

/// A task and the folder that its relative paths start from.
#[derive(Debug, Clone)]
pub struct PlannedTask {
    pub task: Arc<Task>,
    pub base_dir: PathBuf,
}

/// tasks x arms x attempts. The denominator of every rate is this plan.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub tasks: Vec<PlannedTask>,
    pub arms: Vec<Arc<Arm>>,
    pub attempts: u32,
}

impl Plan {
    /// All trials: attempt by attempt, task by task, so that every arm has met the first task
    /// before any meets the second and an early look compares like with like.
    pub fn trials(&self) -> Vec<(TrialId, PlannedTask, Arc<Arm>)> {
        let mut trials = Vec::new();
        for attempt in 1..=self.attempts {
            for task in &self.tasks {
                for arm in &self.arms {
                    let id = TrialId { task: task.task.id.clone(), arm: arm.id.clone(), attempt };
                    trials.push((id, task.clone(), Arc::clone(arm)));
                }
            }
        }
        trials
    }
}
