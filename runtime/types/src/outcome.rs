//! How a trial ended: exactly one of a closed set, and always the last event of its journal.

use serde::{Deserialize, Serialize};

use crate::{BudgetKind, Fault, Spent};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ending {
    Submitted,
    Budget {
        budget: BudgetKind,
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
            Self::Budget { budget } => format!("budget_{budget}"),
            Self::ModelRefused { .. } => "model_refused".into(),
            Self::ScaffoldExited { .. } => "scaffold_exited".into(),
            Self::InfrastructureFault { fault } => format!("infrastructure_fault_{}", fault.layer),
            Self::Cancelled => "cancelled".into(),
        }
    }

    pub fn is_fault(&self) -> bool {
        matches!(self, Self::InfrastructureFault { .. })
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
    /// Paths that the patch policy left out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Limits that the back end could not enforce, by name.
    #[serde(default)]
    pub not_enforced: Vec<String>,
}
