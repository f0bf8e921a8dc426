//! Means over tasks, and differences of two arms on the same tasks.

use crate::{
    Interval, bca,
    mcnemar::laplace,
    normal::two_sided_t,
    proportion::wilson,
    resampling::{Cluster, generator, means, resamples, sorted},
};

/// With fewer clusters a resample is too coarse, and its interval too narrow.
const FEW: usize = 20;
/// So many signs are tried in every combination.
const ALL_SIGNS: usize = 14;

/// What values may be.
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
    /// `None` where too few clusters tell nothing of an amount.
    pub interval: Option<Interval>,
    /// Two-sided.
    pub p_value: f64,
    /// The standard deviation of the clusters' differences; 0 with one cluster.
    pub deviation: f64,
}

/// The interval of a mean over tasks, each value a task's own mean: BCa over resampled tasks. With fewer
/// than twenty tasks or where nothing varies, shares have Wilson's interval as if each task were one trial
/// (nothing in [0, 1] varies more), amounts Student's t.
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

/// Compares two arms by their differences a - b, task by task. A cluster is resampled as a whole: the
/// values of one task, or the tasks of one repository. `None` without a value.
///
/// The interval is BCa over resampled clusters; with fewer than twenty clusters or where nothing varies, shares
/// have the adjusted one of [`crate::difference_interval`], amounts Student's t. The p-value is the wild
/// cluster bootstrap's with the null imposed: every cluster keeps its difference and draws its sign, in all
/// combinations up to 14 clusters that differ, at random above. With one attempt a task and an outcome of yes
/// or no it is McNemar's exact one.
///
/// Efron 1987; Cameron, Gelbach and Miller 2008.
pub fn paired_bootstrap(clusters: &[Vec<f64>], scale: Scale, level: f64) -> Option<Paired> {
    let clusters = sorted(clusters);
    if clusters.is_empty() {
        return None;
    }
    let difference = mean(&clusters);
    let own: Vec<f64> = clusters.iter().map(|(sum, count)| sum / count).collect();
    let interval = resampled(&clusters, level).or_else(|| match scale {
        Scale::Share => {
            let squares = own.iter().map(|one| one * one).sum();
            let [lower, upper] = laplace(own.iter().sum(), squares, own.len() as f64, level);
            Some([lower.min(difference), upper.max(difference)])
        }
        Scale::Amount => student(&clusters, level),
    });
    let (p_value, deviation) = (signs(&clusters), deviation(&own));
    Some(Paired { difference, interval, p_value, deviation })
}

fn mean(clusters: &[Cluster]) -> f64 {
    let sum: f64 = clusters.iter().map(|one| one.0).sum();
    sum / clusters.iter().map(|one| one.1).sum::<f64>()
}

fn resampled(clusters: &[Cluster], level: f64) -> Option<Interval> {
    if clusters.len() < FEW {
        return None;
    }
    let (sum, count): Cluster =
        clusters.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    let jackknife: Vec<f64> = clusters.iter().map(|one| (sum - one.0) / (count - one.1)).collect();
    bca(&means(clusters), sum / count, &jackknife, level)
}

fn student(clusters: &[Cluster], level: f64) -> Option<Interval> {
    let own: Vec<f64> = clusters.iter().map(|(sum, count)| sum / count).collect();
    let (size, centre) = (own.len() as f64, mean(clusters));
    let half = two_sided_t(level, size - 1.0) * deviation(&own) / size.sqrt();
    (own.len() > 1).then_some([centre - half, centre + half])
}

fn deviation(values: &[f64]) -> f64 {
    let size = values.len() as f64;
    let mean = values.iter().sum::<f64>() / size;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() > 1 { (squares / (size - 1.0)).sqrt() } else { 0.0 }
}

/// The share of sign patterns whose sum is at least as far from 0 as the observed one.
fn signs(clusters: &[Cluster]) -> f64 {
    let sums: Vec<f64> = clusters.iter().map(|one| one.0).filter(|sum| *sum != 0.0).collect();
    let size: f64 = sums.iter().map(|sum| sum.abs()).sum();
    // Sums of the same numbers in another order differ in their last digits.
    let observed = sums.iter().sum::<f64>().abs() - size * 1e-12;
    let far = |bits: &mut dyn FnMut() -> bool| {
        let sum: f64 = sums.iter().map(|sum| if bits() { *sum } else { -sum }).sum();
        sum.abs() >= observed
    };
    if sums.len() <= ALL_SIGNS {
        let all = 1_u32 << sums.len();
        let hits = (0..all).filter(|pattern| {
            let mut rest = *pattern;
            far(&mut || {
                let bit = rest & 1 == 1;
                rest >>= 1;
                bit
            })
        });
        return hits.count() as f64 / f64::from(all);
    }
    let mut rng = generator("signs", clusters);
    let draws = resamples(sums.len());
    let hits = (0..draws).filter(|_| far(&mut || rng.bool())).count();
    // The observed pattern is one of those that could have been drawn.
    (hits + 1) as f64 / (draws + 1) as f64
}
