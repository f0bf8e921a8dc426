//! What an arm's trials cost, whether it counts or not.

use proctor_types::{Outcome, Spent};
use serde::{Deserialize, Serialize};

use crate::TrialResult;

/// All that was billed: the tries that count, their answers after the limit, and earlier tries. It
/// is what a budget that trials share is charged, and what the provider's own ledger says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// Tokens.
    pub input: u64,
    pub output: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// No answer was without a price. Where false, `cost_usd` is that of the others.
    pub cost_known: bool,
}

/// Tries that do not count: those that a fault, a kill or a shared limit ended, and one that has
/// not ended. Their tokens and cost are in [`Paid`] and in nothing else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlierReport {
    pub tries: u64,
    /// Answers that they were given.
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

    /// Something was paid for them.
    pub(crate) fn is_paid(&self) -> bool {
        self.input > 0 || self.output > 0 || self.cost_usd > 0.0
    }
}

/// Whole micro-dollars: sums of floats else end in dust. Plus zero: no report should say -0.
pub(crate) fn micro(dollars: f64) -> f64 {
    (dollars * 1e6).round() / 1e6 + 0.0
}
