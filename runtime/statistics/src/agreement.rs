//! Adjusts intervals so that they never contradict the test that is reported with them.

use crate::{
    Interval,
    normal::{quantile, two_sided_z},
};

/// Smallest p-value used. For smaller ones, the normal quantile cannot be represented as a float.
const MIN_P_VALUE: f64 = 1e-300;

/// Makes an interval agree with a test at level `alpha`: the result excludes 0 if and only if the
/// p-value is below `alpha`.
///
/// If the two disagree, the test-based interval decides. It is difference * (1 +- z(alpha) / z(p)).
///
/// * If the test is not significant, both ends are widened to the test-based interval.
/// * If the test is significant, the end beyond 0 is replaced with the test-based interval's end.
///
/// If `interval` is `None` because nothing varies, the result is the test-based interval.
///
/// The result keeps its coverage: if the true difference is 0, the interval excludes it exactly
/// when the test rejects.
///
/// Miettinen 1976 (test-based intervals).
pub fn reconcile_with_test(
    interval: Option<Interval>,
    difference: f64,
    p_value: f64,
    alpha: f64,
) -> Option<Interval> {
    let z = -quantile(p_value.max(MIN_P_VALUE) / 2.0);
    let reach = difference.abs() * two_sided_z(1.0 - alpha) / z;
    if difference == 0.0 || z <= 0.0 || !reach.is_finite() {
        return interval;
    }
    let of_test = [difference - reach, difference + reach];
    let Some([lower, upper]) = interval else { return Some(of_test) };
    let holds_zero = lower <= 0.0 && upper >= 0.0;
    Some(match (p_value < alpha, holds_zero) {
        (false, false) => {
            // Rounding must not make the interval exclude 0.
            [lower.min(of_test[0]).min(0.0), upper.max(of_test[1]).max(0.0)]
        }
        (true, true) if difference > 0.0 => [of_test[0].max(f64::MIN_POSITIVE), upper],
        (true, true) => [lower, of_test[1].min(-f64::MIN_POSITIVE)],
        (true, false) | (false, true) => [lower, upper],
    })
}

/// Returns the smallest interval that contains both.
pub(crate) fn enclosing_interval(a: Option<Interval>, b: Option<Interval>) -> Option<Interval> {
    match (a, b) {
        (Some(one), Some(other)) => Some([one[0].min(other[0]), one[1].max(other[1])]),
        (one, other) => one.or(other),
    }
}
