//! What an arm may spend, and what it is told of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Limits of one trial. `None` means unlimited. Tokens are those of the provider's usage, or an
/// estimate labelled so; money is US dollars; times are seconds of the host's clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<f64>,
    /// Wall time less the time spent waiting for a model endpoint's rate limit or back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_seconds: Option<f64>,
    /// The longest that one command of a tool may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_seconds: Option<f64>,
    #[serde(default)]
    pub disclosure: Disclosure,
}

/// What the model is told of its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    #[default]
    Hidden,
    /// The limits are named in the first message.
    Announced,
}

/// The limit that ended a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    Steps,
    InputTokens,
    OutputTokens,
    TotalTokens,
    Cost,
    Wall,
    Working,
}

impl fmt::Display for BudgetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::TotalTokens => "total_tokens",
            Self::Cost => "cost",
            Self::Wall => "wall",
            Self::Working => "working",
        })
    }
}

/// What a trial has spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub steps: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_tokens: u64,
    pub cost_usd: f64,
    /// Some of the tokens are local counts: an endpoint gave no usage.
    #[serde(default)]
    pub estimated: bool,
}
