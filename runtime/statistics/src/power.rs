//! Computes which differences a given number of tasks can detect with the tests in this crate.

use statrs::distribution::{Binomial, Discrete as _, DiscreteCDF as _};

use crate::normal::{quantile, two_sided_z};

/// Up to this many tasks, the power of McNemar's exact test is summed exactly. For more tasks, a
/// formula is accurate enough.
const MAX_SUMMED_TASKS: u64 = 2000;
/// Terms more than this many standard deviations from the center are negligible.
const MAX_DEVIATIONS: f64 = 8.0;

/// No benchmark has more tasks, so a difference that needs more counts as undetectable.
const MAX_TASKS: f64 = 1e9;

/// The level and the intended power of a test. With several comparisons, `alpha` is the level of
/// Holm's first step (the level divided by the number of comparisons), so that a difference is
/// detected whatever the other comparisons show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerTarget {
    /// The two-sided level.
    pub alpha: f64,
    pub power: f64,
}

impl PowerTarget {
    /// Returns the target for this many comparisons: a level of 5% for all of them together, and a
    /// power of 80%.
    pub fn for_comparisons(comparisons: u64) -> Self {
        Self { alpha: crate::ALPHA / comparisons.max(1) as f64, power: crate::POWER }
    }

    /// Returns the normal quantiles of level and power.
    fn quantiles(self) -> (f64, f64) {
        (two_sided_z(1.0 - self.alpha), quantile(self.power))
    }

    /// Returns the smallest number of discordant tasks that can be significant in the exact test.
    /// All of them then favor the same arm: 2 / 2^n < alpha.
    fn min_discordant_tasks(self) -> f64 {
        (2.0 / self.alpha).log2().floor() + 1.0
    }
}

/// Returns the power of McNemar's exact test on this many tasks if exactly one arm resolves the
/// fraction `discordant_fraction` of the tasks, and the arms' rates differ by `difference`.
pub fn mcnemar_power(tasks: u64, difference: f64, discordant_fraction: f64, alpha: f64) -> f64 {
    ExactTest { alpha, critical_values: Vec::new() }.power(tasks, difference, discordant_fraction)
}

/// Returns the number of tasks that McNemar's exact test needs to detect `difference` if the arms
/// disagree on the fraction `discordant_fraction` of the tasks. Returns `None` if nothing can be
/// detected: `difference` is 0 or larger than the disagreement. Above 2,000 tasks, uses the normal
/// formula of Miettinen 1968 and Connor 1987 with continuity correction.
pub fn mcnemar_tasks_needed(
    difference: f64,
    discordant_fraction: f64,
    target: PowerTarget,
) -> Option<u64> {
    let d = difference.abs();
    let possible = d > 0.0 && d <= discordant_fraction && discordant_fraction <= 1.0;
    let mut test = ExactTest { alpha: target.alpha, critical_values: Vec::new() };
    let tasks = possible.then(|| test.tasks_needed(d, discordant_fraction, target))?;
    (tasks as f64 <= MAX_TASKS).then_some(tasks)
}

/// Returns the smallest difference that this many tasks can detect, by bisection of
/// [`mcnemar_tasks_needed`]. Returns `None` if not even a difference as large as the disagreement
/// can be detected.
pub fn mcnemar_detectable_difference(
    tasks: u64,
    discordant_fraction: f64,
    target: PowerTarget,
) -> Option<f64> {
    let mut test = ExactTest { alpha: target.alpha, critical_values: Vec::new() };
    let mut shows = |difference: f64| match tasks {
        ..=MAX_SUMMED_TASKS => test.power(tasks, difference, discordant_fraction) >= target.power,
        _ => connor_min_tasks(difference, discordant_fraction, target) <= tasks as f64,
    };
    if discordant_fraction <= 0.0 || !shows(discordant_fraction) {
        return None;
    }
    Some(bisect_smallest(0.0, discordant_fraction, shows))
}

/// Returns the smallest detectable difference between two bounds, assuming that larger ones are
/// detectable too. Accurate to a thousandth of a point.
fn bisect_smallest(mut low: f64, mut high: f64, mut is_detectable: impl FnMut(f64) -> bool) -> f64 {
    while high - low > 1e-5 {
        let middle = (low + high) / 2.0;
        if is_detectable(middle) { high = middle } else { low = middle }
    }
    high
}

/// Returns the smallest difference that this many tasks can detect, computed before the run.
/// Assumes that the arms disagree on at least the fraction `disagreement` of the tasks; a
/// difference above that implies more disagreement. Returns `None` if no difference can be
/// detected.
pub fn detectable_difference(tasks: u64, disagreement: f64, target: PowerTarget) -> Option<f64> {
    mcnemar_detectable_difference(tasks, disagreement, target).or_else(|| {
        let mut test = ExactTest { alpha: target.alpha, critical_values: Vec::new() };
        let mut shows = |difference: f64| test.power(tasks, difference, difference) >= target.power;
        shows(1.0).then(|| bisect_smallest(disagreement, 1.0, shows))
    })
}

/// Returns Connor's number of tasks, plus one discordant task to compensate for rounding.
fn connor_min_tasks(d: f64, discordant_fraction: f64, target: PowerTarget) -> f64 {
    let (level, power) = target.quantiles();
    let root =
        level * discordant_fraction.sqrt() + power * (discordant_fraction - d * d).max(0.0).sqrt();
    (root / d).powi(2) + 1.0 / d
}

/// McNemar's exact test at a fixed level.
struct ExactTest {
    alpha: f64,
    /// Cached critical values by number of discordant tasks: the largest number of tasks favoring
    /// the losing arm at which the test is still significant.
    critical_values: Vec<Option<u64>>,
}

impl ExactTest {
    fn tasks_needed(&mut self, d: f64, discordant_fraction: f64, target: PowerTarget) -> u64 {
        let about = connor_min_tasks(d, discordant_fraction, target);
        if about > MAX_SUMMED_TASKS as f64 {
            return about.ceil() as u64;
        }
        // The power grows with the number of tasks, except for steps smaller than the margin used
        // here.
        let (mut low, mut high) = (0, about.ceil() as u64 + 8);
        while self.power(high, d, discordant_fraction) < target.power {
            low = high;
            high += high / 4 + 1;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let enough = self.power(middle, d, discordant_fraction) >= target.power;
            if enough { high = middle } else { low = middle }
        }
        high
    }

    fn power(&mut self, tasks: u64, difference: f64, discordant_fraction: f64) -> f64 {
        let (n, d) = (tasks as f64, difference.abs());
        let share = ((discordant_fraction + d) / (2.0 * discordant_fraction)).clamp(0.0, 1.0);
        let Ok(counts) = Binomial::new(discordant_fraction.clamp(0.0, 1.0), tasks) else {
            return 0.0;
        };
        let (middle, reach) = (
            n * discordant_fraction,
            MAX_DEVIATIONS
                * (n * discordant_fraction * (1.0 - discordant_fraction)).max(0.0).sqrt(),
        );
        let first = (middle - reach - 1.0).max(0.0) as u64;
        let last = ((middle + reach + 1.0) as u64).min(tasks);
        let mut power = 0.0;
        for count in first..=last {
            let Some(cut) = self.critical_value(count) else { continue };
            let Ok(split) = Binomial::new(share, count) else { continue };
            // The larger part of the discordant tasks may favor either arm.
            let called = split.sf(count - cut - 1) + split.cdf(cut);
            power += counts.pmf(count) * called;
        }
        power
    }

    /// Returns the largest number of tasks favoring the losing arm, out of this many discordant
    /// tasks, at which the test is still significant. Returns `None` if there is none.
    fn critical_value(&mut self, count: u64) -> Option<u64> {
        while self.critical_values.len() as u64 <= count {
            let next = self.critical_values.len() as u64;
            let before = self.critical_values.last().copied().flatten();
            // With one more task, the critical value stays the same or grows by one.
            let more = before.map_or(0, |cut| cut + 1);
            let calls =
                |cut: u64| 2 * cut < next && crate::mcnemar_exact_p(cut, next - cut) < self.alpha;
            let cut = if calls(more) { Some(more) } else { before };
            self.critical_values.push(cut);
        }
        self.critical_values.get(count as usize).copied().flatten()
    }
}

/// Returns the number of tasks that a paired comparison of means needs to detect `difference` if
/// the differences per task have the standard deviation `deviation` and the fraction
/// `differing_fraction` of them is not 0. Returns `None` without a difference.
///
/// Uses the normal formula with Guenther's correction for an estimated deviation, but never returns
/// fewer tasks than the exact sign-flip test needs to detect any difference.
///
/// Guenther 1981.
pub fn tasks_for_mean_difference(
    difference: f64,
    deviation: f64,
    differing_fraction: f64,
    target: PowerTarget,
) -> Option<u64> {
    let (level, power) = target.quantiles();
    let tasks = ((level + power) * deviation / difference).powi(2) + level * level / 2.0;
    let least = target.min_discordant_tasks() / differing_fraction;
    let tasks = tasks.max(least).ceil();
    // False if a quotient is infinite or NaN.
    (difference != 0.0 && differing_fraction > 0.0 && tasks <= MAX_TASKS).then_some(tasks as u64)
}

/// Returns the smallest mean difference that this many tasks can detect, or `None` if there are too
/// few to detect any.
pub fn detectable_mean_difference(tasks: u64, deviation: f64, target: PowerTarget) -> Option<f64> {
    let (level, power) = target.quantiles();
    let spare = tasks as f64 - level * level / 2.0;
    let enough = tasks as f64 >= target.min_discordant_tasks() && spare > 0.0;
    enough.then(|| (level + power) * deviation / spare.sqrt())
}
