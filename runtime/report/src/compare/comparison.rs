//! The output of `compare --format json`.

use proctor_types::ArmId;
use serde::{Deserialize, Serialize};

use super::{
    differences::PairDifferences,
    limits::{LimitDifference, StepLimit},
    shared::ExcludedTasks,
};
use crate::Ratio;

pub const COMPARISON_SCHEMA: u32 = 1;

/// The output of `compare --format json`, unrounded. Within a schema version, fields are only
/// added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub schema_version: u32,
    /// Pairs in which neither arm is a control, in plan order. Each pair has one entry per metric.
    pub pairs: Vec<Pair>,
    /// Pairs with a control (`gold`, `noop` or an arm with `control = true`). The multiple-testing
    /// adjustment of p-values ignores these pairs.
    #[serde(default)]
    pub controls: Vec<Pair>,
    /// The results of `--gate`, in the order given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateReport>,
    /// Differences between the arms of each pair. Empty unless requested with `--why`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "why")]
    pub differences: Vec<PairDifferences>,
}

/// Two arms compared in one metric. Every difference is a - b.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The first arm's name.
    pub a: String,
    pub a_arm: ArmId,
    pub b: String,
    pub b_arm: ArmId,
    /// `resolved`, `passed_rate`, `tokens` (input and output), `cost` (US dollars) or `steps`.
    pub metric: String,
    /// Number of compared tasks: the tasks for which each arm has at least one verdict.
    pub tasks: u64,
    /// Number of excluded tasks.
    pub excluded: u64,
    pub excluded_by: ExcludedTasks,
    /// Tasks that only arm `a` resolves. Null if the tasks have several attempts, and for metrics
    /// other than `resolved`. The same applies to `b_only`.
    pub a_only: Option<u64>,
    pub b_only: Option<u64>,
    /// Difference between the arms' rates, or between their means over tasks. Null, like the next
    /// three fields, if the arms have no tasks in common.
    pub difference: Option<f64>,
    /// 95% confidence interval. Also null if there are too few tasks to estimate the interval.
    pub interval: Option<[f64; 2]>,
    pub p_value: Option<f64>,
    /// The p-value after Holm's adjustment over the pairs of this metric. Null for a pair with a
    /// control.
    pub p_adjusted: Option<f64>,
    /// The number of pairs for which `p_adjusted` and `interval_adjusted` are adjusted. 0 for a
    /// pair with a control.
    #[serde(default)]
    pub adjusted_for: u64,
    /// Like `interval`, but at the adjusted level. It excludes 0 if and only if `p_adjusted` is
    /// below 5%.
    #[serde(default)]
    pub interval_adjusted: Option<[f64; 2]>,
    /// Whether the adjusted p-value is below 5%. For a pair with a control, the unadjusted p-value
    /// is used. Null if there is no p-value.
    #[serde(default)]
    pub distinguishable: Option<bool>,
    /// Whether the arms differ, no matter what the missing verdicts are. The same as
    /// `distinguishable` if no verdict is missing. Null if there is no p-value.
    #[serde(default)]
    pub clear: Option<bool>,
    /// `mcnemar_exact` or `paired_bootstrap_by_task`.
    pub test: String,
    /// Number of tasks needed to detect a difference of this size with the same test, with a power
    /// of 80% and a significance level of 5% that is adjusted for the number of pairs. Null if
    /// there is no difference.
    pub tasks_needed: Option<u64>,
    /// The smallest difference that this number of tasks can detect, with the same power and
    /// significance level.
    pub smallest_visible: Option<f64>,
    /// The value of each arm; `difference` is `a_mean - b_mean`. Null if the arms have no tasks in
    /// common.
    #[serde(default)]
    pub a_mean: Option<f64>,
    #[serde(default)]
    pub b_mean: Option<f64>,
    /// The ratio a / b, for tokens, cost and steps. Null if b's value is zero.
    #[serde(default)]
    pub ratio: Option<Ratio>,
    /// The result of an analysis that resamples whole repositories instead of tasks. Absent if
    /// there are fewer than two repositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_repository: Option<ByRepository>,
    /// How far the missing verdicts could change the result. Absent if no verdict is missing, and
    /// for tokens, cost and steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_verdicts: Option<MissingVerdicts>,
    /// The limits of each trial that differ between the arms. Absent if all are equal, or if the
    /// arms' settings are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitDifference>,
    /// Whether the arms' models have different prices. Absent if they don't, or if the arms' settings
    /// are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prices_differ: bool,
    /// The result at the smallest step limit of all arms under study, or of the two arms if one is a
    /// control. Only for `resolved`, and absent if these limits are equal or a resolved trial's steps
    /// are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_limit: Option<CommonLimit>,
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ByRepository {
    pub repositories: u64,
    pub interval: Option<[f64; 2]>,
    pub p_value: f64,
    /// The p-value after Holm's adjustment, as for tasks.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// Whether this analysis and the analysis by task disagree about whether the arms differ.
    #[serde(default)]
    pub changes_conclusion: bool,
}

/// The worst and the best case of a comparison with missing verdicts, over all tasks that both arms
/// ran. In each case, every missing verdict favors the same arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MissingVerdicts {
    /// Number of trials without a verdict, of both arms.
    pub trials: u64,
    /// Number of tasks, including those for which an arm has no verdict.
    pub tasks: u64,
    /// The lowest and highest possible difference.
    pub difference: [f64; 2],
    /// The larger p-value of the two cases. 1 if the arms might be equally good, or if the other arm
    /// might be better.
    pub p_value: f64,
    /// The p-value after Holm's adjustment, like the pair's.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// Whether the arms differ at the 5% level in both cases.
    pub is_difference_certain: bool,
}

/// The result for `resolved` at a step limit that all arms have in common: a trial counts as
/// resolved only if it took at most this many steps. For an arm with a larger limit, this is a lower
/// bound, because the arm might adapt to a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CommonLimit {
    /// The smallest of the step limits.
    pub steps: u64,
    /// Whether each arm's own limit is larger, so that its mean is a lower bound.
    #[serde(default)]
    pub is_a_lower_bound: bool,
    #[serde(default)]
    pub is_b_lower_bound: bool,
    /// Like the pair's fields of the same names.
    pub a_mean: Option<f64>,
    pub b_mean: Option<f64>,
    pub difference: f64,
    pub interval: Option<[f64; 2]>,
    pub interval_adjusted: Option<[f64; 2]>,
    pub p_value: Option<f64>,
    pub p_adjusted: Option<f64>,
    pub clear: Option<bool>,
}

impl CommonLimit {
    /// Takes the numbers from a pair that was compared at this limit. Returns `None` if the pair has
    /// no difference.
    pub(super) fn from_pair(limit: StepLimit, pair: &Pair) -> Option<Self> {
        let [is_a_lower_bound, is_b_lower_bound] = limit.is_below_own;
        Some(Self {
            steps: limit.steps,
            is_a_lower_bound,
            is_b_lower_bound,
            a_mean: pair.a_mean,
            b_mean: pair.b_mean,
            difference: pair.difference?,
            interval: pair.interval,
            interval_adjusted: pair.interval_adjusted,
            p_value: pair.p_value,
            p_adjusted: pair.p_adjusted,
            clear: pair.clear,
        })
    }
}

impl Pair {
    /// Whether the arms differ, no matter what the missing verdicts are.
    pub fn is_clear(&self) -> bool {
        self.clear == Some(true)
    }
}

/// The result of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateResult {
    /// The lower end of the difference's confidence interval is at least `-points`.
    Passed,
    /// The upper end is below `-points`.
    Failed,
    /// Neither, because the interval contains `-points` or the arms have no tasks in common. More
    /// tasks or attempts might decide the gate.
    Undecided,
    /// A trial of one of the arms has no verdict.
    Incomplete,
}

/// A gate's result in `compare --format json`, unrounded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    /// The gate as the user wrote it.
    pub gate: String,
    pub arm: String,
    pub reference: String,
    pub points: f64,
    pub result: GateResult,
    /// Number of tasks that both arms have.
    pub tasks: u64,
    /// The arm's `resolved` minus the reference's, as a fraction. Null if the arms have no tasks in
    /// common.
    pub difference: Option<f64>,
    /// 95% confidence interval of the difference, not adjusted for other comparisons.
    pub interval: Option<[f64; 2]>,
    pub sentence: String,
}
