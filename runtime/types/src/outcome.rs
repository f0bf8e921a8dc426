//! How a trial ended: exactly one of a closed set, and always the last event of its journal.

use serde::{Deserialize, Serialize};

use crate::{BudgetKind, BudgetScope, Fault, Noise, RequestChanges, Responders, Spent};

/// How a trial ended. In the record its `kind` is the name in snake case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    /// The agent declared that it is done.
    Submitted,
    /// A limit was reached.
    Budget {
        /// Which limit.
        budget: BudgetKind,
        /// The limit's scope. A limit of an arm or a run says nothing about the trial: it has no
        /// verdict, and `resume` runs it again.
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
    },
    /// The model refused, or a content filter did.
    ModelRefused {
        /// The endpoint's message.
        why: String,
    },
    /// The scaffold stopped without a submission (an external CLI's exit, a loop that gave up).
    ScaffoldExited {
        /// The category in reports. Absent in older records.
        #[serde(default)]
        cause: ExitCause,
        /// The scaffold's last message, or how it ended.
        why: String,
    },
    /// Something failed that was neither the model nor the task. The trial has no score.
    InfrastructureFault {
        /// What failed.
        fault: Fault,
    },
    /// The run was interrupted.
    Cancelled,
}

impl Ending {
    /// The name in reports: `submitted`, `budget_steps`, `infrastructure_fault_model`...
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

    /// Whether infrastructure failed.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::InfrastructureFault { .. })
    }

    /// Whether the trial was ended from outside, before it could show what it can do: it has no
    /// verdict, and `resume` runs it again.
    pub fn is_unfinished(&self) -> bool {
        let shared = matches!(self, Self::Budget { scope, .. } if !scope.is_trial());
        self.is_fault() || shared || *self == Self::Cancelled
    }
}

/// Why a scaffold stopped without a submission. A closed set: reports count by it.
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
    /// It failed: an exit status of failure, a signal, or an end without one request to the model.
    Crashed,
    /// It asked the model nothing and did nothing for as long as its manifest allows.
    Idle,
    /// The agent waited for a user to approve something.
    Approval,
    /// The model answered without a text and without a tool call, again and again where it may.
    EmptyTurn,
    /// The agent was in a loop.
    Loop,
    /// It came to an end of its own that is no submission.
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

/// `outcome.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The version of the file's format, 1.
    pub schema_version: u32,
    /// How it ended. Its fields are on the same level as those of the outcome.
    #[serde(flatten)]
    pub ending: Ending,
    /// The number of the try that counts, from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// What the try that counts has spent.
    pub spent: Spent,
    /// Recorded tool calls; absent in records of versions that did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Tool calls whose arguments could not be parsed.
    pub malformed_calls: u64,
    /// Seconds.
    pub wall_seconds: f64,
    /// Seconds spent waiting for the endpoint: not working time.
    #[serde(default)]
    pub waited_seconds: f64,
    /// Total seconds in tools.
    #[serde(default)]
    pub tool_seconds: f64,
    /// Paths that the patch policy left out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Limits that the back end could not enforce, by name.
    #[serde(default)]
    pub not_enforced: Vec<String>,
    /// The effect of limits and waits. Absent in records of versions that did not measure it, and
    /// if no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Box<Noise>>,
    /// Who served the responses of the try that counts. Absent if no response names anything.
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub responders: Responders,
    /// The changes to the requests of the try that counts. Absent if there were none.
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub changes: RequestChanges,
    /// Interruptions of the try that counts. Absent if there were none.
    #[serde(default, skip_serializing_if = "Interruptions::is_none")]
    pub interruptions: Interruptions,
}

/// The effect of interruptions on a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruptions {
    /// The steps after which it was resumed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_after: Vec<u64>,
    /// Why an interrupted try was discarded and the trial restarted. Absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_again: Option<String>,
}

impl Interruptions {
    /// Whether the trial ran from its first step to its end without an interruption.
    pub fn is_none(&self) -> bool {
        self.resumed_after.is_empty() && self.started_again.is_none()
    }
}

impl std::fmt::Display for Interruptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps: Vec<String> = self.resumed_after.iter().map(u64::to_string).collect();
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
    /// For a trial of which only the end is known: nothing spent and nothing left out.
    pub fn unmeasured(try_number: u32, ending: Ending) -> Self {
        Self {
            schema_version: 1,
            ending,
            try_number,
            spent: Spent::default(),
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

/// The cost of a trial's tries that do not count: those that a fault, a kill or a shared limit
/// ended, and one that has not ended. They are in no metric of the trial, but were paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierTries {
    /// Their number.
    pub tries: u64,
    /// Their total cost.
    pub spent: Spent,
}
