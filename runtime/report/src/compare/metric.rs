//! The metrics of a comparison.

use proctor_statistics::Scale;
use proctor_types::Spending;

use crate::TrialResult;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    Resolved,
    /// Like `Resolved`, but a trial with more than this many steps counts as not resolved.
    ResolvedWithin(u64),
    PassedRate,
    Tokens,
    Cost,
    Steps,
}

impl Metric {
    /// The metrics of every pair.
    pub(super) const ALL: [Self; 5] =
        [Self::Resolved, Self::PassedRate, Self::Tokens, Self::Cost, Self::Steps];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Resolved | Self::ResolvedWithin(_) => "resolved",
            Self::PassedRate => "passed_rate",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Steps => "steps",
        }
    }

    pub(super) fn scale(self) -> Scale {
        match self {
            Self::Resolved | Self::ResolvedWithin(_) | Self::PassedRate => Scale::Proportion,
            Self::Tokens | Self::Cost | Self::Steps => Scale::Amount,
        }
    }

    /// Returns one trial's value, or `None` if the value is unknown because the verdict, outcome,
    /// count or price is missing.
    pub(super) fn value_for(self, trial: &TrialResult) -> Option<f64> {
        let spent = || trial.outcome.as_ref().map(|outcome| outcome.spent);
        let verdict = trial.verdict.as_ref()?;
        match self {
            Self::Resolved => Some(f64::from(u8::from(verdict.resolved))),
            Self::ResolvedWithin(_) if !verdict.resolved => Some(0.0),
            // A resolved trial has at least one step, so 0 means that the steps were not counted.
            Self::ResolvedWithin(steps) => spent()
                .filter(|spent| spent.steps > 0)
                .map(|spent| f64::from(u8::from(spent.steps <= steps))),
            Self::PassedRate => Some(verdict.passed_rate),
            Self::Tokens => {
                spent().filter(has_token_counts).map(|spent| total_tokens(&spent) as f64)
            }
            Self::Cost => spent().filter(|spent| !spent.unpriced).map(|spent| spent.cost_usd),
            Self::Steps => spent().map(|spent| spent.steps as f64),
        }
    }
}

fn total_tokens(spending: &Spending) -> u64 {
    spending.input_tokens + spending.output_tokens
}

/// Whether the tokens were counted. Every response has tokens, so steps without tokens mean that
/// the tokens were not counted, as in some imported files.
fn has_token_counts(spending: &Spending) -> bool {
    spending.steps == 0 || total_tokens(spending) > 0
}
