//! Rounds the numbers in a report.

/// Rounds to four decimals. More digits would only add noise to a diff of two reports.
pub(crate) fn round_to_four_decimals(value: f64) -> f64 {
    // Adding zero turns -0.0 into 0. The sum of an empty list of floats is -0.0.
    (value * 1e4).round() / 1e4 + 0.0
}

/// Rounds to whole micro-dollars, which hides the tiny errors of floating-point sums. Adding zero
/// turns -0 into 0.
pub(crate) fn round_to_micro_dollars(dollars: f64) -> f64 {
    (dollars * 1e6).round() / 1e6 + 0.0
}
