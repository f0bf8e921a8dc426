//! Treats rounding errors of floating-point sums as zero.

/// Relative to what was summed, a value this small is a rounding error: adding a million doubles in another order
/// changes the sum by less.
const NOISE: f64 = 1e-10;

/// Whether a value is a rounding error of terms as large as `size`.
pub(crate) fn is_noise(value: f64, size: f64) -> bool {
    value.abs() <= size.abs() * NOISE
}

/// Returns `a - b`, or 0 if they only differ by a rounding error, as when a third is added three
/// times.
pub fn difference(a: f64, b: f64) -> f64 {
    let difference = a - b;
    if is_noise(difference, a.abs().max(b.abs())) { 0.0 } else { difference }
}
