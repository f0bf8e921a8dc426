//! What an arm's trials cost, including attempts that do not count.

use proctor_types::{Outcome, Spent};
use serde::{Deserialize, Serialize};

use crate::TrialResult;

/// Everything that was billed: the attempts that count, their responses after the limit, and
/// earlier attempts. A shared budget is charged this amount, and the provider's own records show
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// Tokens.
    pub input: u64,
    pub output: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// Whether every response has a price. If false, `cost_usd` only covers those that have one.
    pub cost_known: bool,
}

/// Attempts that do not count: those that a fault, a kill or a shared limit ended, and one that has
/// not ended. Their tokens and cost are only part of [`Paid`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierReport {
    pub tries: u64,
    /// Responses that they received.
    pub steps: u64,
    /// Tokens.
    pub input: u64,
    pub output: u64,
    /// US dollars.
    pub cost_usd: f64,
}

impl Paid {
    pub(crate) fn of(trials: &[&TrialResult]) -> Self {
        let mut all = Spent::default();
        for trial in trials {
            all.merge(&trial.earlier.spent);
            if let Some(Outcome { spent, .. }) = &trial.outcome {
                all.merge(spent);
            }
        }
        Self {
            input: all.input_tokens + all.grace_input_tokens,
            output: all.output_tokens + all.grace_output_tokens,
            cost_usd: micro(all.cost_usd + all.grace_cost_usd),
            cost_known: !all.unpriced,
        }
    }
}

impl EarlierReport {
    pub(crate) fn of(trials: &[&TrialResult]) -> Self {
        let (mut tries, mut all) = (0, Spent::default());
        for trial in trials {
            tries += trial.earlier.tries;
            all.merge(&trial.earlier.spent);
        }
        Self {
            tries,
            steps: all.steps,
            input: all.input_tokens,
            output: all.output_tokens,
            cost_usd: micro(all.cost_usd),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.tries == 0
    }

    /// Whether anything was paid for them.
    pub(crate) fn is_paid(&self) -> bool {
        self.input > 0 || self.output > 0 || self.cost_usd > 0.0
    }
}

/// Rounds to whole micro-dollars, since sums of floats have tiny errors. Plus zero: no report
/// should show -0.
pub(crate) fn micro(dollars: f64) -> f64 {
    (dollars * 1e6).round() / 1e6 + 0.0
}
