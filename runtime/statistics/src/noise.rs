//! Rounding errors of floating-point sums, which are zero.

/// Relative to what was summed, a value this small is a rounding error: adding a million doubles in another order
/// changes the sum by less.
const NOISE: f64 = 1e-10;

/// Whether a value is a rounding error of terms as large as `size`.
pub(crate) fn is_noise(value: f64, size: f64) -> bool {
    value.abs() <= size.abs() * NOISE
}

/// Returns `a - b`, or 0 where they differ by a rounding error alone: a third added three times is one.
pub fn difference(a: f64, b: f64) -> f64 {
    let difference = a - b;
    if is_noise(difference, a.abs().max(b.abs())) { 0.0 } else { difference }
}
