//! How a trial ended: exactly one of a closed set, and always the last event of its journal.

use serde::{Deserialize, Serialize};

use crate::{BudgetKind, BudgetScope, Fault, Noise, RequestChanges, Responders, Spent};

/// How a trial ended. In the record its `kind` is the name in snake case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    /// The agent said that it is done.
    Submitted,
    /// A limit was reached.
    Budget {
        /// Which limit.
        budget: BudgetKind,
        /// Whose limit it was. That of an arm or a run says nothing of the trial: it has no verdict
        /// and `resume` tries it again.
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
    },
    /// The model declined to answer, or a content filter did.
    ModelRefused {
        /// The endpoint's words.
        why: String,
    },
    /// The scaffold stopped without a submission (an external CLI's exit, a loop that gave up).
    ScaffoldExited {
        /// What reports count by. Absent in records of before it was kept.
        #[serde(default)]
        cause: ExitCause,
        /// What the scaffold said last, or how it ended.
        why: String,
    },
    /// Something broke that was neither the model nor the task. The trial has no score.
    InfrastructureFault {
        /// What broke.
        fault: Fault,
    },
    /// The run was interrupted.
    Cancelled,
}

impl Ending {
    /// The name that reports count by: `submitted`, `budget_steps`, `infrastructure_fault_model`...
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

    /// Whether infrastructure broke.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::InfrastructureFault { .. })
    }

    /// The trial was ended from outside, before it could show what it can do: it has no verdict, and
    /// `resume` tries it again.
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
    /// It waited for a person to allow something.
    Approval,
    /// The model answered without a text and without a tool call, again and again where it may.
    EmptyTurn,
    /// It repeated itself.
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
    /// The version of the file's form, 1.
    pub schema_version: u32,
    /// How it ended. Its fields stand beside those of the outcome, on one level.
    #[serde(flatten)]
    pub ending: Ending,
    /// The try that counts, counted from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    /// What the try that counts has spent.
    pub spent: Spent,
    /// Tool calls in the record; absent in records of versions that did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Tool calls whose arguments could not be read.
    pub malformed_calls: u64,
    /// Seconds.
    pub wall_seconds: f64,
    /// Seconds in waits for the endpoint: no working time.
    #[serde(default)]
    pub waited_seconds: f64,
    /// Seconds in tools, all calls together.
    #[serde(default)]
    pub tool_seconds: f64,
    /// Paths that the patch policy left out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Limits that the back end could not enforce, by name.
    #[serde(default)]
    pub not_enforced: Vec<String>,
    /// What limits and waits did to it. Absent in records of versions that did not look, and where no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Box<Noise>>,
    /// Who gave the responses of the try that counts. Absent where no response names anybody.
    #[serde(default, skip_serializing_if = "Responders::is_empty")]
    pub responders: Responders,
    /// What was changed in the requests of the try that counts. Absent where nothing was.
    #[serde(default, skip_serializing_if = "RequestChanges::is_empty")]
    pub changes: RequestChanges,
    /// How the try that counts came through interruptions. Absent where there were none.
    #[serde(default, skip_serializing_if = "Interruptions::is_none")]
    pub interruptions: Interruptions,
}

/// What interruptions did to a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruptions {
    /// The steps after which it was resumed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed_after: Vec<u64>,
    /// Why an interrupted try was discarded and the trial started again. Absent where none was.
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
            (Some(why), true) => write!(f, "started again ({why})"),
            (None, false) => write!(f, "resumed after step {}", steps.join(", ")),
            (Some(why), false) => {
                write!(f, "started again ({why}), then resumed after step {}", steps.join(", "))
            }
        }
    }
}

impl Outcome {
    /// Of a trial of which nothing but its end is known: nothing was spent and nothing left out.
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

/// What the tries of a trial that do not count have cost: those that a fault, a kill or a shared
/// limit ended, and one that has not ended. They are in no metric of the trial, and were paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierTries {
    /// How many they are.
    pub tries: u64,
    /// What they cost together.
    pub spent: Spent,
}
