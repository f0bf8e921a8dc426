//! The cost of an arm's trials, including discarded and unfinished tries.

use proctor_types::{Outcome, Spending};
use serde::{Deserialize, Serialize};

use crate::{TrialResult, rounding::round_to_micro_dollars};

/// Everything that was billed: the tries that count, their responses after a limit was reached, and
/// earlier tries. Shared budgets are charged this amount, and the provider's invoice should match
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BilledUsage {
    /// Tokens.
    pub input: u64,
    pub output: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// Whether every response has a price. If false, `cost_usd` includes only the responses with a
    /// price.
    pub cost_known: bool,
}

/// Tries that do not count toward the results: tries that a fault, a kill or a shared limit ended,
/// and tries that are still running. Only [`BilledUsage`] includes their tokens and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierTriesReport {
    pub tries: u64,
    /// Number of responses received in the earlier tries.
    pub steps: u64,
    /// Tokens.
    pub input: u64,
    pub output: u64,
    /// US dollars.
    pub cost_usd: f64,
}

impl BilledUsage {
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Self {
        let mut all = Spending::default();
        for trial in trials {
            all.merge(&trial.earlier_tries.spent);
            if let Some(Outcome { spent, .. }) = &trial.outcome {
                all.merge(spent);
            }
        }
        Self {
            input: all.input_tokens + all.grace_input_tokens,
            output: all.output_tokens + all.grace_output_tokens,
            cost_usd: round_to_micro_dollars(all.cost_usd + all.grace_cost_usd),
            cost_known: !all.unpriced,
        }
    }
}

impl EarlierTriesReport {
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Self {
        let (mut tries, mut all) = (0, Spending::default());
        for trial in trials {
            tries += trial.earlier_tries.tries;
            all.merge(&trial.earlier_tries.spent);
        }
        Self {
            tries,
            steps: all.steps,
            input: all.input_tokens,
            output: all.output_tokens,
            cost_usd: round_to_micro_dollars(all.cost_usd),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tries == 0
    }

    /// Whether anything was billed for the earlier tries.
    pub(crate) fn was_billed(&self) -> bool {
        self.input > 0 || self.output > 0 || self.cost_usd > 0.0
    }
}
