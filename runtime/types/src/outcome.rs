//! How a trial ended: exactly one of a closed set, and always the last event of its journal.

use serde::{Deserialize, Serialize};

use crate::{BudgetKind, BudgetScope, Fault, Spent};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    Submitted,
    Budget {
        budget: BudgetKind,
        /// Whose limit it was. That of an arm or a run says nothing of the trial: it has no verdict
        /// and `resume` tries it again.
        #[serde(default, skip_serializing_if = "BudgetScope::is_trial")]
        scope: BudgetScope,
    },
    ModelRefused {
        why: String,
    },
    /// The scaffold stopped without a submission (an external CLI's exit, a loop that gave up).
    ScaffoldExited {
        why: String,
    },
    InfrastructureFault {
        fault: Fault,
    },
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

/// `outcome.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub schema_version: u32,
    #[serde(flatten)]
    pub ending: Ending,
    /// The try that counts, counted from 1.
    #[serde(rename = "try")]
    pub try_number: u32,
    pub spent: Spent,
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
}

/// What the tries of a trial that do not count have cost: those that a fault, a kill or a shared
/// limit ended, and one that has not ended. They are in no metric of the trial, and were paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierTries {
    pub tries: u64,
    pub spent: Spent,
}
