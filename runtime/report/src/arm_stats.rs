//! Parts of an arm's report: counts, totals and means.

use proctor_types::TokenClasses;
use serde::{Deserialize, Serialize};

/// How many tests and trials failed with one class of exception.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceptionCount {
    /// Failed tests.
    pub tests: u64,
    /// Trials in which at least one test failed with this class.
    pub trials: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    pub lower: f64,
    pub upper: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepStats {
    pub mean: f64,
    pub max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ToolCallStats {
    pub total: u64,
    pub mean: f64,
    pub max: u64,
}

/// Averages per step: sums divided by the number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PerStepStats {
    /// Tokens.
    pub input: f64,
    pub output: f64,
    /// Absent if the tool calls of any trial were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TokenStats {
    pub input: CountStats,
    pub output: CountStats,
    pub cached: CountStats,
    /// Input tokens that were not read from a cache.
    #[serde(default)]
    pub uncached_input: CountStats,
    /// Total tokens in each of the five disjoint classes. A class is null if no endpoint reports
    /// it.
    #[serde(default)]
    pub classes: TokenClasses,
}

/// Requests outside the main conversation. The arm's counts include the tokens and cost of these
/// requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SideRequestStats {
    pub requests: u64,
    pub input: u64,
    pub output: u64,
}

/// Responses received after a limit was reached. The arm's other counts do not include them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GraceStats {
    pub answers: u64,
    pub input: u64,
    pub output: u64,
    /// US dollars.
    pub cost_usd: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CountStats {
    pub total: u64,
    pub mean: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DurationStats {
    pub total: f64,
    pub mean: f64,
    pub max: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntegrityCounts {
    pub clean: u64,
    #[serde(default)]
    pub unverified: u64,
    pub suspect: u64,
    pub contaminated: u64,
}

/// An arm's score over the tasks that the quality file does not mark. Tasks that are missing from
/// the file count as unmarked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UnmarkedScore {
    pub trials: u64,
    pub resolved: u64,
    /// `resolved / trials`.
    pub resolved_rate: f64,
    /// The mean fraction of fail-to-pass tests that passed, defined like the arm's `passed_rate`.
    pub passed_rate: f64,
}
