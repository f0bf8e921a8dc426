//! Adjustment for multiple tests.

/// Returns the p-values after Holm's step-down adjustment, in input order. The smallest of m values
/// is multiplied by m, the next by m - 1, and so on. Results never decrease and are at most 1. The
/// adjustment bounds the probability of any false positive, however the tests depend on each other.
///
/// Holm 1979.
pub fn holm_p_values(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let (mut adjusted, mut most) = (vec![1.0; p_values.len()], 0.0_f64);
    for (rank, index) in order.into_iter().enumerate() {
        most = most.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}
