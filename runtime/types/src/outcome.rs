//! How a trial ended. The outcome is always the last event of the trial's journal.

use serde::{Deserialize, Serialize};

use crate::{BudgetKind, BudgetScope, Fault, Noise, RequestChanges, Responders, Spending};

/// The reason in [`Ending::ScaffoldExited`] if a predictions file has no prediction for the task.
pub const NO_PREDICTION: &str = "no prediction for this task";

/// How a trial ended. In the record, `kind` is the variant's name in snake case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    /// The agent declared that it is done.
    Submitted,
    /// A limit was reached.
    Budget {
        /// The limit that was reached.
        budget: BudgetKind,
        /// The limit's scope. A limit of an arm or a run says nothing about the trial, so the trial
        /// has no verdict and `resume` runs it again.
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
    },
    /// The model or a content filter refused to respond.
    ModelRefused {
        /// The endpoint's message.
        why: String,
    },
    /// The scaffold stopped without a submission. For example, an external CLI exited, or a loop
    /// gave up.
    ScaffoldExited {
        /// The category that reports assign to the trial. Absent in older records.
        #[serde(default)]
        cause: ExitCause,
        /// The scaffold's last message, or how the scaffold ended.
        why: String,
    },
    /// Something other than the model or the task failed. The trial has no score.
    InfrastructureFault {
        /// What failed.
        fault: Fault,
    },
    /// The run was interrupted.
    Cancelled,
}

impl Ending {
    /// Returns the name used in reports: `submitted`, `budget_steps`,
    /// `infrastructure_fault_model`...
    pub fn name(&self) -> String {
        match self {
            Self::Submitted => "submitted".into(),
            Self::Budget { budget, scope: BudgetScope::Trial } => format!("budget_{budget}"),
            Self::Budget { budget, scope } => format!("budget_{scope}_{budget}"),
            Self::ModelRefused { .. } => "model_refused".into(),
            Self::ScaffoldExited { .. } => "scaffold_exited".into(),
            Self::InfrastructureFault { fault } => format!("infrastructure_fault_{}", fault.layer),
            Self::Cancelled => "cancelled".into(),
        }
    }

    /// Whether the trial ended in an infrastructure fault.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::InfrastructureFault { .. })
    }

    /// Whether a fault, a shared limit or an interruption ended the trial. Such a trial has no
    /// verdict, and `resume` runs it again.
    pub fn is_unfinished(&self) -> bool {
        let shared = matches!(self, Self::Budget { scope, .. } if !scope.is_trial());
        self.is_fault() || shared || *self == Self::Cancelled
    }
}

/// Why a scaffold stopped without a submission. Reports count trials by cause.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// The scaffold failed: it exited with an error status or on a signal, or without sending any
    /// request to the model.
    Crashed,
    /// The scaffold was idle, without model requests, for as long as its manifest allows.
    Idle,
    /// The agent waited for a user to approve something.
    Approval,
    /// The model responded with neither text nor a tool call, more often than the scaffold
    /// tolerates.
    EmptyTurn,
    /// The agent was stuck in a loop.
    Loop,
    /// The scaffold ended by itself without a submission.
    #[default]
    Finished,
}

impl std::fmt::Display for ExitCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Crashed => "crashed",
            Self::Idle => "idle",
            Self::Approval => "approval",
            Self::EmptyTurn => "empty_turn",
            Self::Loop => "loop",
            Self::Finished => "finished",
        })
    }
}

/// The content of `outcome.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The version of the file format: 1.
    pub schema_version: u32,
    /// How the trial ended. The ending's fields are on the same level as the outcome's fields.
    #[serde(flatten)]
    pub ending: Ending,
    /// Number of the try that counts. The first try has the number 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// Steps, tokens and cost of the try that counts.
    pub spent: Spending,
    /// Number of recorded tool calls. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Number of tool calls whose arguments could not be parsed.
    pub malformed_calls: u64,
    /// Wall time in seconds.
    pub wall_seconds: f64,
    /// Seconds spent waiting for the endpoint, which are not working time.
    #[serde(default)]
    pub waited_seconds: f64,
    /// Total seconds spent in tools.
    #[serde(default)]
    pub tool_seconds: f64,
    /// Paths that the patch policy excluded from the patch.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Names of the limits that the back end could not enforce.
    #[serde(default)]
    pub not_enforced: Vec<String>,
    /// The effect of limits and waits. Absent in older records, and if no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Box<Noise>>,
    /// The models, providers and servers that responded in the try that counts. Absent if no
    /// response names any of these.
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub responders: Responders,
    /// Changes that the gateway made to the requests of the try that counts. Absent if there were
    /// none.
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub changes: RequestChanges,
    /// Interruptions of the try that counts. Absent if there were none.
    #[serde(default, skip_serializing_if = "Interruptions::is_empty")]
    pub interruptions: Interruptions,
}

/// How a trial was interrupted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruptions {
    /// The steps after which the trial was resumed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_after: Vec<u64>,
    /// Why an interrupted try was discarded and the trial started over. Absent if no try was
    /// discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_again: Option<String>,
}

impl Interruptions {
    /// Whether the trial ran from its first step to its end without an interruption.
    pub fn is_empty(&self) -> bool {
        self.resumed_after.is_empty() && self.started_again.is_none()
    }
}

impl std::fmt::Display for Interruptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // If a fault repeats, the trial is resumed after the same step again.
        let steps = self.resumed_after.chunk_by(|step, next| step == next);
        let steps = steps.map(|same| match same {
            [step] => step.to_string(),
            _ => format!("{} ({} times)", same[0], same.len()),
        });
        let steps: Vec<String> = steps.collect();
        match (&self.started_again, steps.is_empty()) {
            (None, true) => f.write_str("not interrupted"),
            (Some(why), true) => write!(f, "started over ({why})"),
            (None, false) => write!(f, "resumed after step {}", steps.join(", ")),
            (Some(why), false) => {
                write!(f, "started over ({why}), then resumed after step {}", steps.join(", "))
            }
        }
    }
}

impl Outcome {
    /// Creates an outcome for a trial if only its ending is known. All counts are zero or empty.
    pub fn from_ending(try_number: u32, ending: Ending) -> Self {
        Self {
            schema_version: 1,
            ending,
            try_number,
            spent: Spending::default(),
            tool_calls: None,
            malformed_calls: 0,
            wall_seconds: 0.0,
            waited_seconds: 0.0,
            tool_seconds: 0.0,
            left_out: Vec::new(),
            not_enforced: Vec::new(),
            noise: None,
            responders: Responders::default(),
            changes: RequestChanges::default(),
            interruptions: Interruptions::default(),
        }
    }
}

/// The cost of the tries that a trial's metrics exclude, although they were paid for: tries that a
/// fault, a kill or a shared limit ended, and a try that has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierTries {
    /// Number of earlier tries.
    pub tries: u64,
    /// Their total cost.
    pub spent: Spending,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_interruptions_are_counted() {
        for (steps, expected) in [
            (vec![], "not interrupted"),
            (vec![4], "resumed after step 4"),
            (vec![4, 4], "resumed after step 4 (2 times)"),
            (vec![2, 4, 4, 7], "resumed after step 2, 4 (2 times), 7"),
        ] {
            let interruptions = Interruptions { resumed_after: steps, started_again: None };
            assert_eq!(interruptions.to_string(), expected);
        }
    }
}
