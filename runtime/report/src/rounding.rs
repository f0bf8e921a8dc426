//! Rounds the numbers of a report.

/// Rounds to four decimals. More would only be noise in a diff of two reports.
pub(crate) fn round_to_four_decimals(value: f64) -> f64 {
    // Adding zero turns -0.0 into 0. The sum of an empty list of floats is -0.0.
    (value * 1e4).round() / 1e4 + 0.0
}

/// Rounds to whole micro-dollars to hide the tiny errors of float sums. Adding zero avoids -0 in
/// reports.
pub(crate) fn round_to_micro_dollars(dollars: f64) -> f64 {
    (dollars * 1e6).round() / 1e6 + 0.0
}
