use proctor_types::Budget;
use serde::Serialize;

/// The announced limits, under the names that prompt templates use. Units are counts, US dollars
/// and seconds. A limit that is not set is `none` and not missing, because templates reject
/// undefined names.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AnnouncedLimits {
    steps: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    uncached_input_tokens: Option<u64>,
    cost_usd: Option<f64>,
    wall_seconds: Option<f64>,
    working_seconds: Option<f64>,
    tool_seconds: Option<f64>,
}

impl AnnouncedLimits {
    /// Returns the limits, or `None` if nothing is limited: an empty list would mislead the model.
    pub fn from_budget(budget: &Budget) -> Option<Self> {
        let limits = Self {
            // Both limits apply to the main agent. Only the main agent reads this text, because
            // sub-agents are not told any limits.
            steps: [budget.steps, budget.main_steps].into_iter().flatten().min(),
            input_tokens: budget.input_tokens,
            output_tokens: budget.output_tokens,
            total_tokens: budget.total_tokens,
            uncached_input_tokens: budget.uncached_input_tokens,
            cost_usd: budget.cost_usd,
            wall_seconds: budget.wall_seconds,
            working_seconds: budget.working_seconds,
            tool_seconds: budget.tool_seconds,
        };
        (limits != Self::default()).then_some(limits)
    }

    /// Returns sample limits for testing a template. One of them is unset.
    pub fn sample() -> Self {
        let (count, amount) = (Some(1), Some(1.0));
        Self {
            steps: count,
            input_tokens: count,
            output_tokens: count,
            total_tokens: count,
            uncached_input_tokens: count,
            cost_usd: amount,
            wall_seconds: amount,
            working_seconds: None,
            tool_seconds: amount,
        }
    }
}
