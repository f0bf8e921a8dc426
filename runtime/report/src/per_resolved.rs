//! Dollars and tokens per resolved trial.

use std::collections::BTreeMap;

use proctor_statistics::{self as statistics, CONFIDENCE_LEVEL};
use serde::{Deserialize, Serialize};

use crate::{
    BilledUsage, TrialResult,
    rounding::{round_to_four_decimals, round_to_micro_dollars},
};

/// A ratio with its 95% confidence interval, clustered by task (`docs/concepts/statistics.md`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub value: f64,
    /// The interval's lower end. Null if there is only one task, or if all tasks have the same
    /// ratio.
    pub lower: Option<f64>,
    /// The interval's upper end. Null if `lower` is null, or if the data does not determine an
    /// upper bound.
    pub upper: Option<f64>,
}

impl Ratio {
    /// Returns the sum of the first values divided by the sum of the second values. Each pair
    /// belongs to one task. `None` if the second sum is 0.
    pub(crate) fn from_tasks(tasks: &[(f64, f64)]) -> Option<Self> {
        let estimate = statistics::estimate_ratio(tasks, CONFIDENCE_LEVEL)?;
        Some(Self { value: estimate.value, lower: estimate.lower, upper: estimate.upper })
    }

    /// Returns the inverse ratio: the second sum divided by the first. `None` if the first sum is
    /// 0.
    pub(crate) fn inverse(self) -> Option<Self> {
        let inverted = |value: f64| (value > 0.0).then_some(1.0 / value);
        let value = inverted(self.value)?;
        Some(match (self.lower, self.upper) {
            (Some(lower), upper) => Self {
                value,
                lower: Some(upper.map_or(0.0, |end| 1.0 / end)),
                upper: inverted(lower),
            },
            (None, _) => Self { value, lower: None, upper: None },
        })
    }

    fn map(self, transform: fn(f64) -> f64) -> Self {
        Self {
            value: transform(self.value),
            lower: self.lower.map(transform),
            upper: self.upper.map(transform),
        }
    }
}

/// Everything that was billed, divided by the number of resolved trials. A trial without a verdict
/// counts as not resolved, but the interval covers both possible verdicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PerResolved {
    /// US dollars. Absent if some responses have no price, or if nothing was billed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Ratio>,
    /// Input and output tokens. Absent if the tokens were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Ratio>,
}

impl PerResolved {
    /// Returns `None` if no trial resolves its task, or if nothing was billed.
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Option<Self> {
        let all = BilledUsage::from_trials(trials);
        let dollars = |paid: &BilledUsage| paid.cost_usd;
        let tokens = |paid: &BilledUsage| (paid.input + paid.output) as f64;
        let priced = all.cost_known && all.cost_usd > 0.0;
        let cost_usd = if priced {
            ratio_clustered_by_task(trials, dollars).map(|ratio| ratio.map(round_to_micro_dollars))
        } else {
            None
        };
        let tokens = match all.input + all.output > 0 {
            true => ratio_clustered_by_task(trials, tokens)
                .map(|ratio| ratio.map(round_to_four_decimals)),
            false => None,
        };
        (cost_usd.is_some() || tokens.is_some()).then_some(Self { cost_usd, tokens })
    }
}

fn ratio_clustered_by_task(
    trials: &[&TrialResult],
    amount: fn(&BilledUsage) -> f64,
) -> Option<Ratio> {
    let mut tasks: BTreeMap<&str, Vec<&TrialResult>> = BTreeMap::new();
    for trial in trials {
        tasks.entry(trial.task.as_str()).or_default().push(*trial);
    }
    let with = |missing: f64| {
        let resolved = |trial: &&TrialResult| {
            trial.verdict.as_ref().map_or(missing, |verdict| f64::from(u8::from(verdict.resolved)))
        };
        let pairs: Vec<(f64, f64)> = tasks
            .values()
            .map(|own| {
                (amount(&BilledUsage::from_trials(own)), own.iter().map(resolved).sum::<f64>())
            })
            .collect();
        Ratio::from_tasks(&pairs)
    };
    // The lower end assumes that every trial without a verdict is resolved, and the upper end that
    // none is.
    let (few, many) = (with(0.0)?, with(1.0)?);
    Some(Ratio { lower: many.lower, upper: many.lower.and(few.upper), ..few })
}
