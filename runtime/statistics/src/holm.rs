//! Several tests at once.

/// Holm's step-down adjustment: the smallest of m values times m, the next times m - 1, and so on,
/// none smaller than the one before and none above 1. Bounds the probability of any false
/// difference, however the tests depend on each other. Results are in the order given.
///
/// Holm 1979.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut adjusted, mut most) = (vec![1.0; values.len()], 0.0_f64);
    for (rank, index) in order.into_iter().enumerate() {
        most = most.max(values[index] * (values.len() - rank) as f64).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}
