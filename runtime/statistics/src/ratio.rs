//! The ratio of two means, such as US dollars per resolved trial.

use crate::{normal::two_sided_t, rounding::is_rounding_error};

/// A ratio and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub value: f64,
    /// Lower end, at least 0. `None` with one task or if all tasks have the same ratio.
    pub lower: Option<f64>,
    /// Upper end. `None` if the data do not bound it because the denominator may be 0, or if
    /// `lower` is `None`.
    pub upper: Option<f64>,
}

/// Divides the sum of the first numbers by the sum of the second ones. Each pair belongs to one
/// task, and all numbers are nonnegative. Returns `None` if the second numbers sum to 0.
///
/// The interval is Fieller's, clustered by task (Fieller 1954): all ratios r for which the mean of
/// first - r * second does not differ significantly from 0 by Student's t.
pub fn estimate_ratio(tasks: &[(f64, f64)], level: f64) -> Option<Ratio> {
    // The order of the tasks must not affect the result.
    let mut tasks = tasks.to_vec();
    tasks.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let count = tasks.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| tasks.iter().map(of).sum::<f64>() / count;
    let (first, second) = (mean(&|task| task.0), mean(&|task| task.1));
    if second.is_nan() || second <= 0.0 {
        return None;
    }
    let value = first / second;
    let is_same = |task: &(f64, f64)| is_rounding_error(task.0 - value * task.1, task.0.max(first));
    if tasks.len() < 2 || tasks.iter().all(is_same) {
        return Some(Ratio { value, lower: None, upper: None });
    }
    // Squared t times the variances of the two means, and their covariance.
    let squared = two_sided_t(level, count - 1.0).powi(2) / (count - 1.0);
    let spread = |of: &dyn Fn(&(f64, f64)) -> f64| squared * mean(of);
    let first_spread = spread(&|task| (task.0 - first).powi(2));
    let second_spread = spread(&|task| (task.1 - second).powi(2));
    let both_spread = spread(&|task| (task.0 - first) * (task.1 - second));
    // The ends are the roots of a r^2 - 2 b r + c = 0.
    let a = second * second - second_spread;
    let b = first * second - both_spread;
    let c = first * first - first_spread;
    let root = (b * b - a * c).max(0.0).sqrt();
    // Avoid cancellation: the product of the roots is c / a.
    let far = if b >= 0.0 { b + root } else { b - root };
    let (one, other) = (far / a, if far == 0.0 { 0.0 } else { c / far });
    let (lower, upper) = match a > 0.0 {
        true => (one.min(other), Some(one.max(other).max(value))),
        // The interval contains every ratio above the positive root, or all ratios if it contains
        // 0.
        false if c > 0.0 => (if b >= 0.0 { other } else { one }, None),
        false => (0.0, None),
    };
    Some(Ratio { value, lower: Some(lower.clamp(0.0, value)), upper })
}
