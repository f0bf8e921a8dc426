//! A trial that began as another one was after a step.

use serde::{Deserialize, Serialize};

use crate::{ArmId, TaskId};

/// The trial and the step that a fork began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The run directory, as it was named. Where it lies is no factor of the arm.
    pub run: String,
    /// The task's id.
    pub task: TaskId,
    /// The id of the trial's arm.
    pub arm: ArmId,
    /// What that arm is called.
    pub name: String,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// The fork begins as the trial was after this step.
    pub step: u64,
    /// The hash of the tree's manifest at that moment.
    pub tree: String,
    /// Whether the conversation went along, or the files alone.
    pub conversation: bool,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_alone_because: Option<String>,
    /// What the model is told before it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ForkOrigin {
    /// The trial and the step, for people.
    pub fn place(&self) -> String {
        format!("{}/{}/{} after step {}", self.task, self.name, self.attempt, self.step)
    }
}
