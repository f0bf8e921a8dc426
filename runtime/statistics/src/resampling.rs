//! Deterministic random draws: the same data give the same draws.

use fastrand::Rng;

use crate::rounding::is_rounding_error;

/// Number of resamples for a small sample. More would not change any displayed digit.
const MAX_RESAMPLES: usize = 10_000;
/// Number of resamples for a large sample, whose distribution is smooth.
const MIN_RESAMPLES: usize = 1_000;
/// Maximum number of draws per interval. A report on ten thousand trials then takes about a second.
const MAX_DRAWS: usize = 4_000_000;

/// Returns the number of resamples for a sample of this size.
pub(crate) fn resample_count(size: usize) -> usize {
    (MAX_DRAWS / size.max(1)).clamp(MIN_RESAMPLES, MAX_RESAMPLES)
}

/// A cluster for resampling: the sum and the number of its values.
pub(crate) type Cluster = (f64, f64);

/// Returns the clusters in an order that does not depend on the input order.
pub(crate) fn sorted_clusters(clusters: &[Vec<f64>]) -> Vec<Cluster> {
    let sums = clusters.iter().filter(|values| !values.is_empty()).map(|values| {
        let mut values = values.clone();
        values.sort_by(f64::total_cmp);
        let sum: f64 = values.iter().sum();
        let size: f64 = values.iter().map(|value| value.abs()).sum();
        // Values such as thirds can cancel out and leave only a rounding error.
        (if is_rounding_error(sum, size) { 0.0 } else { sum }, values.len() as f64)
    });
    let mut clusters: Vec<Cluster> = sums.collect();
    clusters.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    clusters
}

/// Returns a generator seeded by the clusters and the purpose of the draws.
pub(crate) fn seeded_rng(purpose: &str, clusters: &[Cluster]) -> Rng {
    let mut hasher = blake3::Hasher::new();
    hasher.update(purpose.as_bytes());
    for (sum, count) in clusters {
        // Adding zero turns -0.0 into 0.0.
        hasher.update(&(sum + 0.0).to_le_bytes()).update(&count.to_le_bytes());
    }
    let mut seed = [0; 8];
    hasher.finalize_xof().fill(&mut seed);
    Rng::with_seed(u64::from_le_bytes(seed))
}

/// Returns the sorted means of resamples of whole clusters. [`resample_count`] gives their number.
pub(crate) fn resampled_means(clusters: &[Cluster]) -> Vec<f64> {
    let mut rng = seeded_rng("means", clusters);
    let mut means: Vec<f64> = (0..resample_count(clusters.len()))
        .map(|_| {
            let (mut sum, mut count) = (0.0, 0.0);
            for _ in 0..clusters.len() {
                let cluster = clusters[rng.usize(0..clusters.len())];
                sum += cluster.0;
                count += cluster.1;
            }
            sum / count
        })
        .collect();
    means.sort_by(f64::total_cmp);
    means
}
