//! A trial that started from the state of another one after a step.

use serde::{Deserialize, Serialize};

use crate::{ArmId, TaskId};

/// The trial and the step that a fork started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The run directory, as named by the user. Its location is not a factor of the arm.
    pub run: String,
    /// The task's id.
    pub task: TaskId,
    /// The id of the trial's arm.
    pub arm: ArmId,
    /// That arm's name.
    pub name: String,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The fork starts from the trial's state after this step.
    pub step: u64,
    /// The hash of the tree's manifest at that time.
    pub tree: String,
    /// Whether the conversation was copied, or only the files.
    pub conversation: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_alone_because: Option<String>,
    /// A hint that the model receives before it is called again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ForkOrigin {
    /// The trial and the step, for people.
    pub fn place(&self) -> String {
        format!("{}/{}/{} after step {}", self.task, self.name, self.attempt, self.step)
    }
}
