//! Means over tasks, and differences of two arms on the same tasks.

use crate::{
    Interval,
    agreement::{agreeing, outer},
    bca,
    noise::is_noise,
    normal::two_sided_t,
    proportion::wilson,
    resampling::{Cluster, means, sorted},
    signs::sign_flip,
};

/// With fewer clusters a resample is too coarse, and its interval too narrow.
const FEW: usize = 20;

/// The range of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Shares in [0, 1], and differences of them in [-1, 1].
    Share,
    /// Counts, dollars, seconds.
    Amount,
}

/// The mean difference of two arms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// Over all values.
    pub difference: f64,
    /// `None` if there are too few clusters to say anything about an amount.
    pub interval: Option<Interval>,
    /// Two-sided.
    pub p_value: f64,
    /// The standard deviation of the clusters' differences; 0 with one cluster.
    pub deviation: f64,
    /// The share of clusters whose difference is not 0.
    pub differing: f64,
}

/// The interval of a mean over tasks, each value being a task's own mean: BCa over resampled tasks.
/// With fewer than twenty tasks or if nothing varies, shares use Wilson's interval as if each task
/// were one trial (nothing in [0, 1] varies more), and amounts use Student's t.
pub fn mean_interval(values: &[f64], scale: Scale, level: f64) -> Option<Interval> {
    let clusters: Vec<Vec<f64>> = values.iter().map(|value| vec![*value]).collect();
    let clusters = sorted(&clusters);
    resampled(&clusters, level).or_else(|| match scale {
        Scale::Share => {
            wilson(clusters.iter().map(|one| one.0).sum(), clusters.len() as f64, level)
        }
        Scale::Amount => student(&clusters, level),
    })
}

/// Compares two arms by their differences a - b, task by task. A cluster is resampled as a whole:
/// the values of one task, or the tasks of one repository. `None` without values.
///
/// The p-value is that of the exact sign-flip test of the clusters' sums: the limit of the wild
/// cluster bootstrap with the null imposed. With one attempt per task and a binary outcome it
/// equals McNemar's exact one.
///
/// Shares use the interval of Bonett and Price with two added clusters of a typical difference,
/// amounts use Student's t. From twenty clusters on, an end of BCa that is farther out replaces
/// theirs: BCa alone is too narrow if few tasks differ, and the others if the differences are
/// skewed. Finally the interval is made to agree with the p-value ([`agreeing`]).
///
/// Efron 1987; Cameron, Gelbach and Miller 2008; Bonett and Price 2012.
pub fn paired_bootstrap(clusters: &[Vec<f64>], scale: Scale, level: f64) -> Option<Paired> {
    let clusters = sorted(clusters);
    if clusters.is_empty() {
        return None;
    }
    let sums: Vec<f64> = clusters.iter().map(|one| one.0).collect();
    let (difference, p_value) = (mean(&clusters), sign_flip(&sums));
    let interval = outer(closed_form(&clusters, scale, level), resampled(&clusters, level));
    let interval = agreeing(interval, difference, p_value, 1.0 - level);
    let differing = sums.iter().filter(|sum| **sum != 0.0).count() as f64 / sums.len() as f64;
    let deviation = deviation(&clusters);
    let interval = interval.map(|ends| within(ends, scale));
    Some(Paired { difference, interval, p_value, deviation, differing })
}

/// The interval of such a comparison at the smaller level `alpha` that an adjustment for several
/// comparisons leaves: it excludes 0 if and only if the p-value is below `alpha`, and always
/// contains the unadjusted one.
pub fn adjusted_interval(
    clusters: &[Vec<f64>],
    scale: Scale,
    found: &Paired,
    alpha: f64,
) -> Option<Interval> {
    let clusters = sorted(clusters);
    let interval = closed_form(&clusters, scale, 1.0 - alpha);
    let interval = agreeing(interval, found.difference, found.p_value, alpha);
    outer(interval, found.interval).map(|ends| within(ends, scale))
}

fn within([lower, upper]: Interval, scale: Scale) -> Interval {
    match scale {
        Scale::Share => [lower.max(-1.0), upper.min(1.0)],
        Scale::Amount => [lower, upper],
    }
}

/// The mean over all values; 0 if it is only a rounding error.
fn mean(clusters: &[Cluster]) -> f64 {
    let sum: f64 = clusters.iter().map(|one| one.0).sum();
    let size: f64 = clusters.iter().map(|one| one.0.abs()).sum();
    if is_noise(sum, size) {
        return 0.0;
    }
    sum / clusters.iter().map(|one| one.1).sum::<f64>()
}

/// What each cluster adds to the mean, and its distance from it: its sum, and the sum minus what as
/// many values of the mean would add, both divided by the mean number of values. With clusters of
/// equal size these are their own means.
fn parts(clusters: &[Cluster]) -> Vec<(f64, f64)> {
    let count = clusters.iter().map(|one| one.1).sum::<f64>() / clusters.len() as f64;
    let mean = mean(clusters);
    let part = |one: &Cluster| (one.0 / count, (one.0 - mean * one.1) / count);
    clusters.iter().map(part).collect()
}

fn resampled(clusters: &[Cluster], level: f64) -> Option<Interval> {
    // They are sorted: if first and last are equal, nothing varies.
    if clusters.len() < FEW || clusters.first() == clusters.last() {
        return None;
    }
    let (sum, count): Cluster =
        clusters.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    let jackknife: Vec<f64> = clusters.iter().map(|one| (sum - one.0) / (count - one.1)).collect();
    bca(&means(clusters), sum / count, &jackknife, level)
}

fn closed_form(clusters: &[Cluster], scale: Scale, level: f64) -> Option<Interval> {
    match scale {
        Scale::Share => Some(shrunk(clusters, level)),
        Scale::Amount => student(clusters, level),
    }
}

/// Bonett and Price's interval of differences of shares, which generalizes theirs for binary
/// outcomes: two clusters are added whose differences are the root mean square of those that are
/// not 0, one of each sign. Its width is never zero.
fn shrunk(clusters: &[Cluster], level: f64) -> Interval {
    let parts = parts(clusters);
    let n = parts.len() as f64;
    let mean = mean(clusters);
    let differing: Vec<f64> =
        parts.iter().map(|one| one.0 * one.0).filter(|one| *one > 0.0).collect();
    let added = match differing.len() {
        0 => 1.0,
        count => differing.iter().sum::<f64>() / count as f64,
    };
    let squares: f64 = parts.iter().map(|one| one.1 * one.1).sum::<f64>() + n * mean * mean;
    let centre = n * mean / (n + 2.0);
    let variance = ((squares + 2.0 * added) / (n + 2.0) - centre * centre).max(0.0);
    let half = two_sided_t(level, n + 1.0) * (variance / (n + 2.0)).sqrt();
    // The centre is nearer to 0 than the difference, which must not be excluded.
    [(centre - half).min(mean), (centre + half).max(mean)]
}

/// `None` with one cluster, and if nothing varies: two tasks that agree by chance must not yield an
/// interval of zero width.
fn student(clusters: &[Cluster], level: f64) -> Option<Interval> {
    let (size, centre, deviation) = (clusters.len() as f64, mean(clusters), deviation(clusters));
    let half = two_sided_t(level, size - 1.0) * deviation / size.sqrt();
    (clusters.len() > 1 && deviation > 0.0).then_some([centre - half, centre + half])
}

fn deviation(clusters: &[Cluster]) -> f64 {
    let parts = parts(clusters);
    let squares: f64 = parts.iter().map(|one| one.1 * one.1).sum();
    let deviation = (squares / (parts.len() as f64 - 1.0)).sqrt();
    let largest = parts.iter().fold(0.0_f64, |most, one| most.max(one.0.abs()));
    if parts.len() < 2 || is_noise(deviation, largest) { 0.0 } else { deviation }
}
