//! Budgets: what a trial, an arm or a run may spend, and what the model learns about the budget.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MAX_COST_USD, MAX_COUNT, MAX_SECONDS, TokenClasses, Usage};

/// Limits of one trial. `None` means unlimited. Token counts come from the provider, or are
/// estimates marked as such. Money is in US dollars. Times are in seconds, measured by the host's
/// clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Maximum number of delivered responses. Never exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 50)]
    pub steps: Option<u64>,
    /// Maximum number of responses delivered to the agent itself, excluding its sub-agents. Never
    /// exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 50)]
    pub main_steps: Option<u64>,
    /// Maximum number of input tokens. The last response may exceed this limit and the limits
    /// listed after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 1000000)]
    pub input_tokens: Option<u64>,
    /// Maximum number of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 100000)]
    pub output_tokens: Option<u64>,
    /// Maximum number of input and output tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 1000000)]
    pub total_tokens: Option<u64>,
    /// Maximum number of input tokens that were not read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 100000)]
    pub uncached_input_tokens: Option<u64>,
    /// Maximum cost in US dollars. The model must have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_COST_USD))]
    #[schemars(example = 2.5)]
    pub cost_usd: Option<f64>,
    /// Maximum number of seconds since the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_SECONDS))]
    #[schemars(example = 3600)]
    pub wall_seconds: Option<f64>,
    /// Maximum wall time in seconds, excluding waits for a model endpoint's rate limits and retry
    /// back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_SECONDS))]
    #[schemars(example = 3600)]
    pub working_seconds: Option<f64>,
    /// Maximum number of seconds spent in tool calls, in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_SECONDS))]
    #[schemars(example = 600)]
    pub tool_seconds: Option<f64>,
    /// Maximum number of seconds that a single tool command may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_SECONDS))]
    #[schemars(example = 120)]
    pub command_seconds: Option<f64>,
    /// What the model learns about its budget.
    #[serde(default)]
    #[schemars(example = Disclosure::Announced)]
    pub disclosure: Disclosure,
    /// What happens when a limit is reached. Default: `hard`.
    #[serde(default, skip_serializing_if = "BudgetEnding::is_hard")]
    #[schemars(example = BudgetEnding::Grace)]
    pub ending: BudgetEnding,
    /// What all trials of an arm may spend in total (`docs/concepts/budgets.md`). Not a factor, because it only decides when an
    /// arm stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<SharedLimits>,
    /// What all trials of the run may spend in total. Top level only. Not a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<SharedLimits>,
}

/// Limits shared by several trials. A trial that reaches a shared limit ends without a verdict and
/// can be resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedLimits {
    /// Maximum number of delivered responses. Never exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 5000)]
    pub steps: Option<u64>,
    /// Maximum number of input tokens. The last response may exceed this limit and the limits
    /// listed after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 100000000)]
    pub input_tokens: Option<u64>,
    /// Maximum number of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 10000000)]
    pub output_tokens: Option<u64>,
    /// Maximum number of input and output tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 100000000)]
    pub total_tokens: Option<u64>,
    /// Maximum number of input tokens that were not read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    #[schemars(example = 10000000)]
    pub uncached_input_tokens: Option<u64>,
    /// Maximum cost in US dollars. The model must have a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = MAX_COST_USD))]
    #[schemars(example = 50.0)]
    pub cost_usd: Option<f64>,
}

impl SharedLimits {
    /// Returns the same limits as a [`Budget`].
    pub fn to_budget(&self) -> Budget {
        let Self { steps, input_tokens, output_tokens, total_tokens, .. } = *self;
        Budget {
            steps,
            input_tokens,
            output_tokens,
            total_tokens,
            uncached_input_tokens: self.uncached_input_tokens,
            cost_usd: self.cost_usd,
            ..Budget::default()
        }
    }
}

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetEnding {
    /// No more requests are sent.
    #[default]
    Hard,
    /// The model may give one more response after a limit on steps, tokens or cost is reached. The
    /// response is recorded separately and does not count as a step, and its tool calls are not
    /// run.
    Grace,
}

impl BudgetEnding {
    /// Whether the ending is `hard`. This is the default, so Serde omits the key.
    pub fn is_hard(&self) -> bool {
        *self == Self::Hard
    }
}

/// What the model learns about its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    /// The model learns nothing.
    #[default]
    Hidden,
    /// The first message states the limits.
    Announced,
    /// The last message of each request states the remaining budget.
    Countdown,
}

/// The limit that ended a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Responses delivered.
    Steps,
    /// Responses delivered to the agent itself, excluding its sub-agents.
    MainSteps,
    /// Input tokens, including cached ones.
    InputTokens,
    /// Output tokens, including reasoning.
    OutputTokens,
    /// Input and output tokens.
    TotalTokens,
    /// Input tokens that did not come from a cache.
    UncachedInputTokens,
    /// US dollars.
    Cost,
    /// Time since the agent started.
    Wall,
    /// Wall time, excluding waits for the endpoint.
    Working,
    /// Time spent in tools.
    Tools,
}

impl BudgetKind {
    /// Whether this is a time limit. Time limits cancel requests in flight.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Wall | Self::Working | Self::Tools)
    }
}

impl fmt::Display for BudgetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::MainSteps => "main_steps",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::TotalTokens => "total_tokens",
            Self::UncachedInputTokens => "uncached_input_tokens",
            Self::Cost => "cost",
            Self::Wall => "wall",
            Self::Working => "working",
            Self::Tools => "tools",
        })
    }
}

/// The scope of a limit. A trial that ends at a limit of its arm or run has not failed: it has no
/// verdict, and `resume` runs it again once the limit allows it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// The trial's own limit. The patch of a trial that reaches this limit is still graded.
    #[default]
    Trial,
    /// `[budget.arm]`: the shared limit of all trials of the arm.
    Arm,
    /// `[budget.run]`: the shared limit of all trials of the run.
    Run,
}

impl BudgetScope {
    /// Whether the limit is the trial's own. This is the default, so Serde omits the key.
    pub fn is_trial(&self) -> bool {
        *self == Self::Trial
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trial => "trial",
            Self::Arm => "arm",
            Self::Run => "run",
        })
    }
}

/// The purpose of a request, determined by the rules of the scaffold's manifest.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RequestClass {
    /// The main conversation. Each delivered response is a step.
    #[default]
    Main,
    /// A side request, such as for a title or a summary. A side request costs tokens and money but
    /// is not a step.
    Side,
}

/// What a trial has spent so far. Tokens and cost cover all requests. The `side_` fields cover side
/// requests only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// Responses in the main conversation that were delivered to the scaffold.
    pub steps: u64,
    /// Steps of sub-agents, included in `steps`.
    #[serde(default, skip_serializing_if = "crate::egress::is_zero")]
    pub sub_agent_steps: u64,
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Input tokens read from a cache, included in `input_tokens`.
    pub cached_tokens: u64,
    /// Cost in US dollars of the responses that have a price.
    pub cost_usd: f64,
    /// The same tokens by price class, if endpoints report classes.
    #[serde(default, skip_serializing_if = "TokenClasses::is_unknown")]
    pub classes: TokenClasses,
    /// Whether some token counts are local estimates because an endpoint reported no usage.
    #[serde(default)]
    pub estimated: bool,
    /// Side requests that received a response.
    #[serde(default)]
    pub side_requests: u64,
    /// Input tokens of side requests, included in `input_tokens`.
    #[serde(default)]
    pub side_input_tokens: u64,
    /// Output tokens of side requests, included in `output_tokens`.
    #[serde(default)]
    pub side_output_tokens: u64,
    /// Responses received after a limit was reached. Not included in the counts above.
    #[serde(default)]
    pub grace_answers: u64,
    /// Input tokens of the responses received after a limit was reached.
    #[serde(default)]
    pub grace_input_tokens: u64,
    /// Output tokens of the responses received after a limit was reached.
    #[serde(default)]
    pub grace_output_tokens: u64,
    /// Cost in US dollars of the responses received after a limit was reached.
    #[serde(default)]
    pub grace_cost_usd: f64,
    /// Whether a response used more than its reservation. Concurrent requests may then have
    /// exceeded a limit.
    #[serde(default)]
    pub outgrown: bool,
    /// Whether a response has no price. `cost_usd` then covers only the other responses.
    #[serde(default)]
    pub unpriced: bool,
    /// The part of the tokens and cost above that the endpoint billed for attempts without a usable
    /// response.
    #[serde(default, skip_serializing_if = "FailedUsage::is_zero")]
    pub failed: FailedUsage,
}

/// What an endpoint billed for attempts without a usable response. The trial's own limits do not
/// count it, because the model has nothing to show for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedUsage {
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Input tokens read from a cache, included in `input_tokens`.
    pub cached_tokens: u64,
    /// Cost in US dollars.
    pub cost_usd: f64,
}

impl FailedUsage {
    /// Whether no failed attempt was billed, in which case Serde omits the key.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Spending {
    /// Returns the spending without the failed attempts: what the trial's own limits count.
    #[must_use]
    pub fn delivered(&self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(self.failed.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(self.failed.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(self.failed.cached_tokens),
            cost_usd: (self.cost_usd - self.failed.cost_usd).max(0.0),
            failed: FailedUsage::default(),
            ..*self
        }
    }

    /// Marks the usage of an attempt as failed. Call [`Self::add`] for the attempt, too.
    pub fn add_failed(&mut self, usage: &Usage, cost_usd: Option<f64>) {
        self.failed.input_tokens += usage.input;
        self.failed.output_tokens += usage.output;
        self.failed.cached_tokens += usage.cached;
        self.failed.cost_usd += cost_usd.unwrap_or_default();
    }

    /// Returns the agent's own steps, without its sub-agents' steps.
    pub fn main_steps(&self) -> u64 {
        self.steps.saturating_sub(self.sub_agent_steps)
    }

    /// Returns the input tokens that did not come from a cache.
    pub fn uncached_input_tokens(&self) -> u64 {
        self.input_tokens.saturating_sub(self.cached_tokens)
    }

    /// Formats the cost for display. If a response has no price, the result says that the cost is
    /// incomplete or unknown.
    pub fn format_cost(&self) -> String {
        match (self.unpriced, self.cost_usd > 0.0) {
            (false, _) => format!("${:.4}", self.cost_usd),
            (true, true) => format!("at least ${:.4}", self.cost_usd),
            (true, false) => "cost unknown".to_owned(),
        }
    }

    /// Adds what another try or trial spent.
    pub fn merge(&mut self, other: &Self) {
        self.steps += other.steps;
        self.sub_agent_steps += other.sub_agent_steps;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.classes.add(&other.classes);
        self.cost_usd += other.cost_usd;
        self.estimated |= other.estimated;
        self.side_requests += other.side_requests;
        self.side_input_tokens += other.side_input_tokens;
        self.side_output_tokens += other.side_output_tokens;
        self.grace_answers += other.grace_answers;
        self.grace_input_tokens += other.grace_input_tokens;
        self.grace_output_tokens += other.grace_output_tokens;
        self.grace_cost_usd += other.grace_cost_usd;
        self.outgrown |= other.outgrown;
        self.unpriced |= other.unpriced;
        self.failed.input_tokens += other.failed.input_tokens;
        self.failed.output_tokens += other.failed.output_tokens;
        self.failed.cached_tokens += other.failed.cached_tokens;
        self.failed.cost_usd += other.failed.cost_usd;
    }

    /// Adds a response that was received after a limit was reached.
    pub fn add_grace(&mut self, usage: &Usage, cost_usd: Option<f64>, is_delivered: bool) {
        self.grace_answers += u64::from(is_delivered);
        self.grace_input_tokens += usage.input;
        self.grace_output_tokens += usage.output;
        self.grace_cost_usd += cost_usd.unwrap_or_default();
        self.unpriced |= cost_usd.is_none();
        self.estimated |= usage.estimated;
    }

    /// Adds the usage and cost of one attempt, successful or not. If the response was delivered,
    /// also counts a step or a side request.
    pub fn add(
        &mut self,
        class: RequestClass,
        usage: &Usage,
        cost_usd: Option<f64>,
        is_delivered: bool,
    ) {
        self.input_tokens += usage.input;
        self.output_tokens += usage.output;
        self.cached_tokens += usage.cached;
        self.classes.add(&usage.classes);
        self.estimated |= usage.estimated;
        self.cost_usd += cost_usd.unwrap_or_default();
        self.unpriced |= cost_usd.is_none();
        match class {
            RequestClass::Main => self.steps += u64::from(is_delivered),
            RequestClass::Side => {
                self.side_requests += u64::from(is_delivered);
                self.side_input_tokens += usage.input;
                self.side_output_tokens += usage.output;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FailedUsage, RequestClass, Spending};
    use crate::Usage;

    #[test]
    fn delivered_spending_excludes_failed_attempts() {
        let usage = Usage { input: 100, output: 20, cached: 60, ..Usage::default() };
        let mut spent = Spending::default();
        for is_delivered in [false, true] {
            spent.add(RequestClass::Main, &usage, Some(0.5), is_delivered);
        }
        spent.add_failed(&usage, Some(0.5));
        let delivered = spent.delivered();
        assert_eq!((spent.input_tokens, spent.output_tokens, spent.cost_usd), (200, 40, 1.0));
        assert_eq!((delivered.input_tokens, delivered.output_tokens), (100, 20));
        assert_eq!((delivered.uncached_input_tokens(), delivered.cost_usd), (40, 0.5));
        assert_eq!((delivered.steps, delivered.failed), (1, FailedUsage::default()));
        let mut both = spent;
        both.merge(&spent);
        assert_eq!((both.failed.input_tokens, both.failed.cost_usd), (200, 1.0));
    }

    #[test]
    fn unpriced_cost_is_not_shown_as_zero() {
        let spent = |cost_usd, unpriced| {
            Spending { cost_usd, unpriced, ..Spending::default() }.format_cost()
        };
        assert_eq!(spent(0.0, false), "$0.0000");
        assert_eq!(spent(0.25, false), "$0.2500");
        assert_eq!(spent(0.25, true), "at least $0.2500");
        assert_eq!(spent(0.0, true), "cost unknown");
    }
}
