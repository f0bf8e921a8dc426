//! Uncertainty of an arm's rates: confidence intervals, pass@k and variance.

use std::collections::BTreeMap;

use proctor_statistics as statistics;
use proctor_types::FailureReason;
use serde::{Deserialize, Serialize};

use crate::{TrialResult, rounding::round_to_four_decimals};

/// Lower and upper ends of 95% confidence intervals. Null if there are no trials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    pub resolved_rate: Option<[f64; 2]>,
    pub passed_rate: Option<[f64; 2]>,
    /// Intervals of pass@k, for the values of k from [`displayed_ks`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pass_at_k: BTreeMap<u32, [f64; 2]>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pass_hat_k: BTreeMap<u32, [f64; 2]>,
}

/// The variance of `resolved` (0 or 1) over all trials, split into the variance between tasks and
/// the variance between attempts at the same task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VarianceReport {
    pub between_tasks: f64,
    pub between_attempts: f64,
}

pub(crate) fn compute_intervals(trials: &[&TrialResult]) -> Intervals {
    // Keep two more decimals than other numbers in the report have. Tables show these values with
    // three decimals, and rounding to four decimals first would round twice.
    let rounded = |interval: Option<[f64; 2]>| {
        interval.map(|ends| ends.map(|end| (end * 1e6).round() / 1e6 + 0.0))
    };
    Intervals {
        resolved_rate: rounded(resolved_interval(trials)),
        passed_rate: rounded(passed_interval(trials)),
        pass_at_k: estimate_by_k(trials, displayed_ks, statistics::pass_at_k, rounded_interval),
        pass_hat_k: estimate_by_k(trials, displayed_ks, statistics::pass_hat_k, rounded_interval),
    }
}

/// Returns the interval of the resolved rate, clustered by task. Missing verdicts count as failures
/// at the lower end and as successes at the upper end.
pub fn resolved_interval(trials: &[&TrialResult]) -> Option<[f64; 2]> {
    let value = |trial: &TrialResult| {
        trial.verdict.as_ref().map(|verdict| f64::from(u8::from(verdict.resolved)))
    };
    interval_with_missing_verdicts(trials, value, |tasks| {
        let clusters: Vec<_> =
            tasks.iter().map(|values| (values.iter().sum(), values.len() as f64)).collect();
        statistics::clustered_wilson_interval(&clusters, statistics::CONFIDENCE_LEVEL)
    })
}

/// Returns the interval of the passed rate, computed like [`resolved_interval`].
pub fn passed_interval(trials: &[&TrialResult]) -> Option<[f64; 2]> {
    let value = |trial: &TrialResult| trial.verdict.as_ref().map(|verdict| verdict.passed_rate);
    interval_with_missing_verdicts(trials, value, |tasks| {
        let means: Vec<f64> =
            tasks.iter().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect();
        statistics::mean_interval(
            &means,
            statistics::Scale::Proportion,
            statistics::CONFIDENCE_LEVEL,
        )
    })
}

fn interval_with_missing_verdicts(
    trials: &[&TrialResult],
    value: impl Fn(&TrialResult) -> Option<f64>,
    interval: impl Fn(&[Vec<f64>]) -> Option<[f64; 2]>,
) -> Option<[f64; 2]> {
    let with = |missing: f64| {
        let values = |trial: &TrialResult| value(trial).unwrap_or(missing);
        interval(&group_by_task(trials, values).into_values().collect::<Vec<_>>())
    };
    let complete = trials.iter().all(|trial| value(trial).is_some());
    let low = with(0.0)?;
    let high = if complete { low } else { with(1.0)? };
    Some([low[0], high[1]])
}

fn group_by_task<'a, T>(
    trials: &[&'a TrialResult],
    value: impl Fn(&TrialResult) -> T,
) -> BTreeMap<&'a str, Vec<T>> {
    let mut tasks: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for trial in trials {
        tasks.entry(trial.task.as_str()).or_default().push(value(trial));
    }
    tasks
}

/// Returns pass@k for every k up to the number of attempts at each task, averaged over tasks. Empty
/// if there is only one attempt per task. Also empty while a verdict is missing, because an
/// estimate from only the graded trials would be biased.
pub(crate) fn pass_at_k(trials: &[&TrialResult]) -> BTreeMap<u32, f64> {
    estimate_by_k(trials, all_ks, statistics::pass_at_k, rounded_mean)
}

pub(crate) fn pass_hat_k(trials: &[&TrialResult]) -> BTreeMap<u32, f64> {
    estimate_by_k(trials, all_ks, statistics::pass_hat_k, rounded_mean)
}

fn all_ks(max_k: u32) -> Vec<u32> {
    (1..=max_k).collect()
}

/// Returns the values of k that have an interval and a column in tables: every k up to five. With
/// more than five attempts: 1, 2, 5, the powers of ten, and the number of attempts. Larger values
/// are skipped because a table has no room for 500 columns, and computing 25 intervals took most of
/// the time needed to build a report.
pub fn displayed_ks(max_k: u32) -> Vec<u32> {
    if max_k <= 5 {
        return all_ks(max_k);
    }
    let tens = std::iter::successors(Some(10_u32), |k| k.checked_mul(10));
    let few = [1, 2, 5].into_iter().chain(tens).take_while(|k| *k < max_k);
    few.chain([max_k]).collect()
}

fn estimate_by_k<T>(
    trials: &[&TrialResult],
    ks: fn(u32) -> Vec<u32>,
    estimate: fn(u64, u64, u64) -> Option<f64>,
    aggregate: fn(&[f64]) -> Option<T>,
) -> BTreeMap<u32, T> {
    let resolved = |trial: &TrialResult| trial.verdict.as_ref().map(|verdict| verdict.resolved);
    if trials.iter().any(|trial| resolved(trial).is_none()) {
        return BTreeMap::new();
    }
    let tasks = group_by_task(trials, |trial| resolved(trial) == Some(true));
    let most = tasks.values().map(Vec::len).min().unwrap_or(0);
    if most < 2 {
        return BTreeMap::new();
    }
    let of = |k: u32| {
        let estimates: Option<Vec<f64>> = tasks
            .values()
            .map(|attempts| {
                let resolved_count = attempts.iter().filter(|resolved| **resolved).count();
                estimate(attempts.len() as u64, resolved_count as u64, u64::from(k))
            })
            .collect();
        aggregate(&estimates?)
    };
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    ks(most).into_iter().filter_map(|k| Some((k, of(k)?))).collect()
}

fn rounded_mean(values: &[f64]) -> Option<f64> {
    Some(round_to_four_decimals(values.iter().sum::<f64>() / values.len() as f64))
}

fn rounded_interval(values: &[f64]) -> Option<[f64; 2]> {
    let interval = statistics::mean_interval(
        values,
        statistics::Scale::Proportion,
        statistics::CONFIDENCE_LEVEL,
    )?;
    Some(interval.map(round_to_four_decimals))
}

pub(crate) fn resolved_variance(trials: &[&TrialResult]) -> Option<VarianceReport> {
    let value = |trial: &TrialResult| {
        trial.verdict.as_ref().map(|verdict| f64::from(u8::from(verdict.resolved)))
    };
    let graded = group_by_task(trials, value).into_values();
    let tasks: Vec<Vec<f64>> =
        graded.map(|values| values.into_iter().flatten().collect()).collect();
    let components = statistics::variance_components(&tasks)?;
    let (between_tasks, between_attempts) = (
        round_to_four_decimals(components.between_tasks),
        round_to_four_decimals(components.between_attempts),
    );
    Some(VarianceReport { between_tasks, between_attempts })
}

pub(crate) fn count_failure_reasons(trials: &[&TrialResult]) -> BTreeMap<FailureReason, u64> {
    let mut counts = BTreeMap::new();
    for trial in trials {
        let (outcome, verdict) = (trial.outcome.as_ref(), trial.verdict.as_ref());
        if let Some(reason) = FailureReason::from_results(
            outcome,
            verdict,
            trial.patch_bytes,
            trial.grading_not_requested,
        ) {
            *counts.entry(reason).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_ks_get_sparser_and_include_the_last() {
        assert_eq!(displayed_ks(0), [0_u32; 0]);
        assert_eq!(displayed_ks(5), [1, 2, 3, 4, 5]);
        assert_eq!(displayed_ks(10), [1, 2, 5, 10]);
        assert_eq!(displayed_ks(500), [1, 2, 5, 10, 100, 500]);
    }
}
