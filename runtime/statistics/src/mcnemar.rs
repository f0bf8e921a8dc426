//! Compares two arms with one attempt per task. Only tasks that exactly one arm resolves carry
//! information.

use statrs::distribution::{Binomial, Discrete as _, DiscreteCDF as _};

use crate::{
    Interval,
    agreement::{enclosing_interval, reconcile_with_test},
    normal::two_sided_z,
};

/// Up to this many discordant tasks, a float can represent the first term of the sum.
const MAX_SUMMED_TASKS: u64 = 1000;

/// Returns the p-value of the exact two-sided McNemar test: the probability that the `a_only +
/// b_only` discordant tasks split at least this unevenly if both arms are equally good. It is
/// min(1, 2 P(X <= min)) with X ~ Binomial(n, 1/2), and 1 without discordant tasks.
///
/// McNemar 1947; the exact form as in Agresti, *Categorical Data Analysis*, 3rd ed., section 11.1.
pub fn mcnemar_exact_p(a_only: u64, b_only: u64) -> f64 {
    tail_probabilities(a_only, b_only).map_or(1.0, |(below, at)| (2.0 * (below + at)).min(1.0))
}

/// Returns the mid-p value, which counts half of the observed split's probability. It is less
/// conservative than the exact p-value, but its error rate may slightly exceed the level
/// (Fagerland, Lydersen and Laake 2013). Proctor does not base decisions on this value.
pub fn mcnemar_mid_p(a_only: u64, b_only: u64) -> f64 {
    tail_probabilities(a_only, b_only)
        .map_or(1.0, |(below, at)| if a_only == b_only { 1.0 - at } else { 2.0 * below + at })
}

/// Returns P(X < min) and P(X = min).
fn tail_probabilities(a_only: u64, b_only: u64) -> Option<(f64, f64)> {
    let (all, least) = (a_only + b_only, a_only.min(b_only));
    if all == 0 {
        return None;
    }
    if all <= MAX_SUMMED_TASKS {
        // Sum term by term, which is exact as long as the binomial coefficients are.
        let (mut below, mut at) = (0.0, 0.5_f64.powi(all as i32));
        for k in 0..least {
            below += at;
            at = at * (all - k) as f64 / (k + 1) as f64;
        }
        return Some((below, at));
    }
    let split = Binomial::new(0.5, all).ok()?;
    let at = split.pmf(least);
    let below = least.checked_sub(1).map_or(0.0, |less| split.cdf(less));
    Some((below, at))
}

/// Returns an interval of `(a_only - b_only) / tasks`: Wald's with one task added to each
/// discordant cell. The interval keeps its level even for few tasks, and its width is never zero.
/// The interval excludes 0 if and only if the exact p-value is below `1 - level`
/// ([`reconcile_with_test`]). Returns `None` without tasks.
///
/// Bonett and Price 2012, as recommended by Fagerland, Lydersen and Laake 2014.
pub fn difference_interval(a_only: u64, b_only: u64, tasks: u64, level: f64) -> Option<Interval> {
    let (plus, minus, n) = (a_only as f64, b_only as f64, tasks as f64);
    let [lower, upper] = (tasks > 0).then(|| wald_interval(plus, minus, n, level))?;
    let difference = (plus - minus) / n;
    // If all discordant tasks favor one arm, the added tasks shift the interval past the difference
    // itself.
    let ends = [lower.min(difference), upper.max(difference)];
    let p_value = mcnemar_exact_p(a_only, b_only);
    let [lower, upper] = reconcile_with_test(Some(ends), difference, p_value, 1.0 - level)?;
    Some([lower.max(-1.0), upper.min(1.0)])
}

/// Returns the interval at a smaller level `alpha`, which is the level adjusted for several
/// comparisons. The result always contains the unadjusted interval.
pub fn adjusted_difference_interval(
    a_only: u64,
    b_only: u64,
    tasks: u64,
    level: f64,
    alpha: f64,
) -> Option<Interval> {
    let of = |level| difference_interval(a_only, b_only, tasks, level);
    enclosing_interval(of(1.0 - alpha), of(level))
}

/// Bonett and Price's equation 3: adds one task to each discordant cell.
fn wald_interval(a_only: f64, b_only: f64, tasks: f64, level: f64) -> Interval {
    let n = tasks + 2.0;
    let mean = (a_only - b_only) / n;
    let error = (((a_only + b_only + 2.0) / n - mean * mean).max(0.0) / n).sqrt();
    let half = two_sided_z(level) * error;
    [mean - half, mean + half]
}
