//! Means over tasks, and paired differences between two arms.

use crate::{
    Interval,
    agreement::{enclosing_interval, reconcile_with_test},
    bca_interval,
    normal::two_sided_t,
    proportion::wilson_interval,
    resampling::{Cluster, resampled_means, sorted_clusters},
    rounding::is_rounding_error,
    sign_flip::sign_flip_p_value,
};

/// With fewer clusters, resampling is too coarse and BCa intervals are too narrow.
const MIN_RESAMPLED_CLUSTERS: usize = 20;

/// The range of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Proportions in [0, 1] and their differences in [-1, 1].
    Proportion,
    /// Counts, dollars, seconds.
    Amount,
}

/// The mean difference between two arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedDifference {
    /// The mean over all values.
    pub difference: f64,
    /// The interval. `None` if there are too few clusters for the interval of an amount.
    pub interval: Option<Interval>,
    /// The two-sided p-value.
    pub p_value: f64,
    /// The standard deviation of the clusters' differences; 0 with one cluster.
    pub deviation: f64,
    /// The fraction of clusters whose difference is not 0.
    pub differing_fraction: f64,
}

/// Returns the interval of a mean over tasks, where each value is the mean of one task. Uses BCa
/// over resampled tasks. With fewer than twenty tasks, or if nothing varies, proportions use
/// Wilson's interval as if each task were one trial (which is conservative for values in [0, 1]),
/// and amounts use Student's t.
pub fn mean_interval(values: &[f64], scale: Scale, level: f64) -> Option<Interval> {
    let clusters: Vec<Vec<f64>> = values.iter().map(|value| vec![*value]).collect();
    let clusters = sorted_clusters(&clusters);
    bootstrap_interval(&clusters, level).or_else(|| match scale {
        Scale::Proportion => {
            wilson_interval(clusters.iter().map(|one| one.0).sum(), clusters.len() as f64, level)
        }
        Scale::Amount => student_interval(&clusters, level),
    })
}

/// Compares two arms by their differences a - b per task. Each cluster is resampled as a whole. A
/// cluster consists of the values of one task, or of the tasks of one repository. Returns `None`
/// without values.
///
/// The p-value is from the exact sign-flip test of the clusters' sums, which is the limit of the
/// wild cluster bootstrap with the null imposed. With one attempt per task and a binary outcome it
/// equals McNemar's exact p-value.
///
/// For proportions, the interval is Bonett and Price's with two added clusters of a typical
/// difference. For amounts, the interval is Student's t.
///
/// With at least twenty clusters, the result is the smallest interval that contains both this
/// interval and BCa's. BCa alone is too narrow if few tasks differ. The other intervals are too
/// narrow if the differences are skewed. Finally, the interval is adjusted to agree with the
/// p-value ([`reconcile_with_test`]).
///
/// Efron 1987; Cameron, Gelbach and Miller 2008; Bonett and Price 2012.
pub fn paired_bootstrap(
    clusters: &[Vec<f64>],
    scale: Scale,
    level: f64,
) -> Option<PairedDifference> {
    let clusters = sorted_clusters(clusters);
    if clusters.is_empty() {
        return None;
    }
    let sums: Vec<f64> = clusters.iter().map(|one| one.0).collect();
    let (difference, p_value) = (mean(&clusters), sign_flip_p_value(&sums));
    let interval = enclosing_interval(
        closed_form_interval(&clusters, scale, level),
        bootstrap_interval(&clusters, level),
    );
    let interval = reconcile_with_test(interval, difference, p_value, 1.0 - level);
    let differing = sums.iter().filter(|sum| **sum != 0.0).count() as f64 / sums.len() as f64;
    let deviation = standard_deviation(&clusters);
    let interval = interval.map(|ends| clamp_to_scale(ends, scale));
    Some(PairedDifference {
        difference,
        interval,
        p_value,
        deviation,
        differing_fraction: differing,
    })
}

/// Returns the p-value of [`paired_bootstrap`] for clusters of one value each, without its interval.
/// Returns `None` without values.
pub fn paired_p_value(differences: &[f64]) -> Option<f64> {
    let clusters: Vec<Vec<f64>> = differences.iter().map(|one| vec![*one]).collect();
    let sums: Vec<f64> = sorted_clusters(&clusters).iter().map(|one| one.0).collect();
    (!sums.is_empty()).then(|| sign_flip_p_value(&sums))
}

/// Returns the interval of a paired comparison at a smaller level `alpha`, which is the level
/// adjusted for several comparisons. The interval excludes 0 if and only if the p-value is below
/// `alpha`. The result always contains the unadjusted interval.
pub fn adjusted_interval(
    clusters: &[Vec<f64>],
    scale: Scale,
    comparison: &PairedDifference,
    alpha: f64,
) -> Option<Interval> {
    let clusters = sorted_clusters(clusters);
    let interval = closed_form_interval(&clusters, scale, 1.0 - alpha);
    let interval = reconcile_with_test(interval, comparison.difference, comparison.p_value, alpha);
    enclosing_interval(interval, comparison.interval).map(|ends| clamp_to_scale(ends, scale))
}

fn clamp_to_scale([lower, upper]: Interval, scale: Scale) -> Interval {
    match scale {
        Scale::Proportion => [lower.max(-1.0), upper.min(1.0)],
        Scale::Amount => [lower, upper],
    }
}

/// Returns the mean over all values, or 0 if it is only a rounding error.
fn mean(clusters: &[Cluster]) -> f64 {
    let sum: f64 = clusters.iter().map(|one| one.0).sum();
    let size: f64 = clusters.iter().map(|one| one.0.abs()).sum();
    if is_rounding_error(sum, size) {
        return 0.0;
    }
    sum / clusters.iter().map(|one| one.1).sum::<f64>()
}

/// Returns two numbers for each cluster: its contribution to the mean, and the deviation of this
/// contribution from the expected one. The contribution is the cluster's sum. The deviation is the
/// sum minus the expected sum for the cluster's number of values. Both are divided by the mean
/// number of values. For clusters of equal size, the contributions are the clusters' own means.
fn mean_contributions(clusters: &[Cluster]) -> Vec<(f64, f64)> {
    let count = clusters.iter().map(|one| one.1).sum::<f64>() / clusters.len() as f64;
    let mean = mean(clusters);
    let part = |one: &Cluster| (one.0 / count, (one.0 - mean * one.1) / count);
    clusters.iter().map(part).collect()
}

fn bootstrap_interval(clusters: &[Cluster], level: f64) -> Option<Interval> {
    // Clusters are sorted: if the first equals the last, nothing varies.
    if clusters.len() < MIN_RESAMPLED_CLUSTERS || clusters.first() == clusters.last() {
        return None;
    }
    let (sum, count): Cluster =
        clusters.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    let jackknife: Vec<f64> = clusters.iter().map(|one| (sum - one.0) / (count - one.1)).collect();
    bca_interval(&resampled_means(clusters), sum / count, &jackknife, level)
}

fn closed_form_interval(clusters: &[Cluster], scale: Scale, level: f64) -> Option<Interval> {
    match scale {
        Scale::Proportion => Some(bonett_price_interval(clusters, level)),
        Scale::Amount => student_interval(clusters, level),
    }
}

/// Returns Bonett and Price's interval for differences of proportions, generalized from binary
/// outcomes. Two clusters are added, one of each sign, whose differences are the root mean square
/// of the nonzero ones. The width is never zero.
fn bonett_price_interval(clusters: &[Cluster], level: f64) -> Interval {
    let parts = mean_contributions(clusters);
    let n = parts.len() as f64;
    let mean = mean(clusters);
    let differing: Vec<f64> =
        parts.iter().map(|one| one.0 * one.0).filter(|one| *one > 0.0).collect();
    let added = match differing.len() {
        0 => 1.0,
        count => differing.iter().sum::<f64>() / count as f64,
    };
    let squares: f64 = parts.iter().map(|one| one.1 * one.1).sum::<f64>() + n * mean * mean;
    let center = n * mean / (n + 2.0);
    let variance = ((squares + 2.0 * added) / (n + 2.0) - center * center).max(0.0);
    let half = two_sided_t(level, n + 1.0) * (variance / (n + 2.0)).sqrt();
    // The center is closer to 0 than the difference, which the interval must contain.
    [(center - half).min(mean), (center + half).max(mean)]
}

/// Returns Student's interval, or `None` with one cluster or if nothing varies: two tasks that
/// agree by chance must not yield an interval of zero width.
fn student_interval(clusters: &[Cluster], level: f64) -> Option<Interval> {
    let (size, center, deviation) =
        (clusters.len() as f64, mean(clusters), standard_deviation(clusters));
    let half = two_sided_t(level, size - 1.0) * deviation / size.sqrt();
    (clusters.len() > 1 && deviation > 0.0).then_some([center - half, center + half])
}

fn standard_deviation(clusters: &[Cluster]) -> f64 {
    let parts = mean_contributions(clusters);
    let squares: f64 = parts.iter().map(|one| one.1 * one.1).sum();
    let deviation = (squares / (parts.len() as f64 - 1.0)).sqrt();
    let largest = parts.iter().fold(0.0_f64, |most, one| most.max(one.0.abs()));
    if parts.len() < 2 || is_rounding_error(deviation, largest) { 0.0 } else { deviation }
}
