//! Forks: trials that start from the state of another trial after a step.

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
    /// Hash of the work directory's manifest at that step.
    pub tree: String,
    /// Whether the conversation was copied in addition to the files.
    pub conversation: bool,
    /// Why only the files were copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_alone_because: Option<String>,
    /// A hint that the model receives in its next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ForkOrigin {
    /// Formats the trial and the step for display.
    pub fn describe(&self) -> String {
        format!("{}/{}/{} after step {}", self.task, self.name, self.attempt, self.step)
    }
}
