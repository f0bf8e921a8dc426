//! The bias-corrected and accelerated bootstrap interval.

use crate::{
    Interval,
    normal::{cdf, quantile, two_sided_z},
    rounding::is_rounding_error,
};

/// Returns the interval of an estimate, given its sorted bootstrap distribution and its jackknife
/// values (each without one cluster). Returns `None` if nothing varies. Quantiles between two draws
/// are interpolated.
///
/// Efron 1987; Efron and Tibshirani 1993, section 14.3.
pub fn bca_interval(
    distribution: &[f64],
    estimate: f64,
    jackknife: &[f64],
    level: f64,
) -> Option<Interval> {
    let (first, last) = (distribution.first()?, distribution.last()?);
    let range = last - first;
    if is_rounding_error(range, first.abs().max(last.abs())) || jackknife.is_empty() {
        return None;
    }
    let draws = distribution.len() as f64;
    // A draw equal to the estimate counts as half below and half above it. The comparison tolerates
    // rounding errors, because the draw's terms may have been summed in another order.
    let is_below = |draw: &f64| *draw < estimate && !is_rounding_error(estimate - draw, range);
    let is_up_to = |draw: &f64| *draw <= estimate || is_rounding_error(draw - estimate, range);
    let below = distribution.partition_point(is_below) as f64;
    let up_to = distribution.partition_point(is_up_to) as f64;
    let bias = quantile((below + up_to) / (2.0 * draws));
    let center = jackknife.iter().sum::<f64>() / jackknife.len() as f64;
    let power = |exponent| jackknife.iter().map(|one| (center - one).powi(exponent)).sum::<f64>();
    let squares = power(2);
    let size = jackknife.iter().fold(0.0_f64, |most, one| most.max(one.abs()));
    let varies = !is_rounding_error(squares.sqrt(), size);
    let acceleration = if varies { power(3) / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let z = two_sided_z(level);
    let end = |z: f64| {
        let shifted = bias + z;
        let share = cdf(bias + shifted / (1.0 - acceleration * shifted));
        interpolated_quantile(distribution, share)
    };
    // With all draws on one side of the estimate the bias is undefined, so use plain percentiles.
    if !bias.is_finite() {
        return Some([
            interpolated_quantile(distribution, cdf(-z)),
            interpolated_quantile(distribution, cdf(z)),
        ]);
    }
    Some([end(-z), end(z)])
}

/// Returns a quantile of sorted draws, interpolated linearly.
fn interpolated_quantile(draws: &[f64], probability: f64) -> f64 {
    let place = probability.clamp(0.0, 1.0) * (draws.len() - 1) as f64;
    let (index, rest) = (place.floor() as usize, place.fract());
    let next = draws[(index + 1).min(draws.len() - 1)];
    draws[index] + (next - draws[index]) * rest
}
