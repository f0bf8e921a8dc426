//! Treats rounding errors of floating-point sums as zero.

/// Relative to the summed values, a result this small is a rounding error: changing the order of a
/// million doubles changes their sum by less.
const ROUNDING_TOLERANCE: f64 = 1e-10;

/// Returns whether a value is a rounding error for terms of magnitude `magnitude`.
pub(crate) fn is_rounding_error(value: f64, magnitude: f64) -> bool {
    value.abs() <= magnitude.abs() * ROUNDING_TOLERANCE
}

/// Returns `a - b`, or 0 if they differ only by a rounding error, for example 1 and the sum of
/// three thirds.
pub fn difference(a: f64, b: f64) -> f64 {
    let difference = a - b;
    if is_rounding_error(difference, a.abs().max(b.abs())) { 0.0 } else { difference }
}
