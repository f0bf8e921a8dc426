//! Success rates over several attempts at one task.

/// Returns pass@k: the probability that at least one of `k` attempts, drawn without replacement
/// from the `attempts` made, resolves the task. An unbiased estimate, 1 - C(n - c, k) / C(n, k).
/// Returns `None` if fewer than `k` attempts were made.
///
/// Chen et al. 2021, *Evaluating Large Language Models Trained on Code*.
pub fn pass_at_k(attempts: u64, successes: u64, k: u64) -> Option<f64> {
    let failed = attempts.checked_sub(successes)?;
    (k <= attempts).then(|| 1.0 - binomial_ratio(attempts, failed, k))
}

/// Returns pass^k: the probability that all of `k` attempts, drawn without replacement, resolve the
/// task. An unbiased estimate, C(c, k) / C(n, k). Returns `None` if fewer than `k` attempts were
/// made.
///
/// Yao et al. 2024, *tau-bench*.
pub fn pass_hat_k(attempts: u64, successes: u64, k: u64) -> Option<f64> {
    (k <= attempts && successes <= attempts).then(|| binomial_ratio(attempts, successes, k))
}

/// Returns C(subset, k) / C(total, k), computed as a product because the binomials themselves
/// overflow early.
fn binomial_ratio(total: u64, subset: u64, k: u64) -> f64 {
    if subset < k {
        return 0.0;
    }
    (0..k).map(|i| (subset - i) as f64 / (total - i) as f64).product()
}
