//! The sign-flip test: if two arms do not differ, the difference of each task is equally likely to
//! have either sign.

use crate::rounding::is_rounding_error;

/// Up to this many values, all sign patterns are counted exactly. Each half then has at most 4,096
/// patterns.
const MAX_COUNTED_VALUES: usize = 24;
/// Largest denominator that is tried to find a common grid. 2,520 is divisible by 1 to 10.
const MAX_DENOMINATOR: u32 = 2520;
/// Maximum number of grid steps of all values together.
const GRID_STEPS: u64 = 1 << 16;
/// For a large sample, the maximum is this number of steps per value instead.
const GRID_STEPS_PER_VALUE: u64 = 16;

/// Returns the two-sided p-value of a sum: the fraction of sign patterns whose sum is at least as
/// far from 0. Exact and without random draws, so the smallest p-value of n values is 2 / 2^n. If
/// more than 24 values have no common grid, each is rounded to one part in 65,536 of their sum.
/// Flipping the signs of rounded values is still an exact test.
///
/// Fisher 1935; Pagano and Tritchler 1983 (counting by convolution).
pub(crate) fn sign_flip_p_value(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let values: Vec<f64> =
        values.iter().copied().filter(|one| !is_rounding_error(*one, largest)).collect();
    let size: f64 = values.iter().map(|value| value.abs()).sum();
    let observed = values.iter().sum::<f64>().abs();
    if values.is_empty() || is_rounding_error(observed, size) {
        return 1.0;
    }
    let share = if values.len() <= MAX_COUNTED_VALUES {
        fraction_by_counting(&values, observed, size)
    } else if let Some(steps) = to_common_grid(&values, largest) {
        fraction_by_convolution(&steps)
    } else {
        fraction_by_convolution(&round_to_grid(&values, size))
    };
    // A probability below the smallest float is still greater than zero.
    (2.0 * share).clamp(f64::MIN_POSITIVE, 1.0)
}

/// Returns the fraction of patterns with at least the observed sum, using the sums of both halves.
fn fraction_by_counting(values: &[f64], observed_sum: f64, magnitude: f64) -> f64 {
    let (first, second) = values.split_at(values.len() / 2);
    let (first, second) = (pattern_sums(first), pattern_sums(second));
    let mut hits = 0_u64;
    let mut from = second.len();
    // As the first half's sum grows, more sums of the second half reach the observed sum.
    for one in &first {
        while from > 0 && one + second[from - 1] >= observed_sum - magnitude * 1e-12 {
            from -= 1;
        }
        hits += (second.len() - from) as u64;
    }
    hits as f64 / (first.len() * second.len()) as f64
}

/// Returns the sums of all sign patterns in ascending order.
fn pattern_sums(values: &[f64]) -> Vec<f64> {
    let mut all = vec![0.0];
    for value in values {
        all = all.iter().flat_map(|sum| [sum + value, sum - value]).collect();
    }
    all.sort_by(f64::total_cmp);
    all
}

/// Returns the values as integer multiples of the coarsest grid that contains all of them, or
/// `None` if there is no such grid or it is too fine.
fn to_common_grid(values: &[f64], max_value: f64) -> Option<Vec<i64>> {
    let scaled = |value: f64, denominator: u32| value / max_value * f64::from(denominator);
    let is_whole = |scaled: f64| (scaled - scaled.round()).abs() <= 1e-9;
    let all_whole =
        |denominator: &u32| values.iter().all(|value| is_whole(scaled(*value, *denominator)));
    let denominator = (1..=MAX_DENOMINATOR).find(all_whole)?;
    let steps: Vec<i64> =
        values.iter().map(|value| scaled(*value, denominator).round() as i64).collect();
    let size: u64 = steps.iter().map(|step| step.unsigned_abs()).sum();
    (size <= max_grid_steps(values.len())).then_some(steps)
}

fn max_grid_steps(values: usize) -> u64 {
    GRID_STEPS.max(GRID_STEPS_PER_VALUE * values as u64)
}

fn round_to_grid(values: &[f64], magnitude: f64) -> Vec<i64> {
    let scale = max_grid_steps(values.len()) as f64 / magnitude;
    values.iter().map(|value| (value * scale).round() as i64).collect()
}

/// Returns the fraction of patterns with at least the observed sum. Uses convolution to compute the
/// distribution of the sum of the values with a negative sign, up to the largest sum that counts.
fn fraction_by_convolution(steps: &[i64]) -> f64 {
    let observed = steps.iter().sum::<i64>().unsigned_abs();
    if observed == 0 {
        return 0.5;
    }
    let mut sizes: Vec<usize> = steps.iter().map(|step| step.unsigned_abs() as usize).collect();
    sizes.sort_unstable();
    let all: usize = sizes.iter().sum();
    // all - 2 * negative >= observed; both have the same parity.
    let most = (all - observed as usize) / 2;
    let mut chances = vec![0.0_f64; most + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for size in sizes {
        reached = (reached + size).min(most);
        for sum in (0..=reached).rev() {
            let with = if sum >= size { chances[sum - size] } else { 0.0 };
            chances[sum] = 0.5 * (chances[sum] + with);
        }
    }
    chances.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts all patterns one by one.
    fn p_value_by_enumeration(values: &[f64]) -> f64 {
        let observed = values.iter().sum::<f64>().abs();
        let size: f64 = values.iter().map(|value| value.abs()).sum();
        let patterns = 1_u32 << values.len();
        let hits = (0..patterns).filter(|pattern| {
            let sum: f64 = values
                .iter()
                .enumerate()
                .map(|(bit, value)| if (pattern >> bit) & 1 == 1 { *value } else { -value })
                .sum();
            sum.abs() >= observed - size * 1e-12
        });
        hits.count() as f64 / f64::from(patterns)
    }

    #[test]
    fn counting_by_halves_matches_enumeration() {
        let mut rng = fastrand::Rng::with_seed(5);
        for length in 1..=12 {
            for scale in [1.0, 1.0 / 3.0, 0.1, 1234.5] {
                let values: Vec<f64> =
                    (0..length).map(|_| f64::from(rng.i32(-4..=5)) * scale).collect();
                assert!(
                    (sign_flip_p_value(&values) - p_value_by_enumeration(&values)).abs() < 1e-12,
                    "{values:?}"
                );
            }
            let values: Vec<f64> = (0..length).map(|_| rng.f64() - 0.4).collect();
            assert!(
                (sign_flip_p_value(&values) - p_value_by_enumeration(&values)).abs() < 1e-12,
                "{values:?}"
            );
        }
    }

    #[test]
    fn convolution_matches_counting() {
        let mut rng = fastrand::Rng::with_seed(6);
        for denominator in [1.0, 2.0, 3.0, 5.0, 7.0] {
            let values: Vec<f64> =
                (0..20).map(|_| f64::from(rng.i32(-2..=4)) / denominator).collect();
            let size: f64 = values.iter().map(|value| value.abs()).sum();
            let observed = values.iter().sum::<f64>().abs();
            // About half of the patterns reach a sum near 0, so there is nothing to test.
            if observed < 1e-9 {
                continue;
            }
            // Any scale works as long as the values are on the grid.
            let steps = to_common_grid(&values, 4.0 / denominator).unwrap();
            let by_steps = fraction_by_convolution(&steps);
            assert!(
                (by_steps - fraction_by_counting(&values, observed, size)).abs() < 1e-12,
                "{values:?}"
            );
        }
    }

    #[test]
    fn rounding_to_a_grid_changes_little() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20 {
            let values: Vec<f64> = (0..24).map(|_| rng.f64() - 0.35).collect();
            let size: f64 = values.iter().map(|value| value.abs()).sum();
            let observed = values.iter().sum::<f64>().abs();
            let exact = fraction_by_counting(&values, observed, size);
            let near = fraction_by_convolution(&round_to_grid(&values, size));
            assert!((near - exact).abs() <= 0.01 * exact + 1e-6, "{near} {exact}");
        }
    }

    #[test]
    fn thirds_that_cancel_out_sum_to_zero() {
        let third = 1.0 / 3.0;
        assert_eq!(sign_flip_p_value(&[third, third, third, -1.0]), 1.0);
        let noise = 0.1 + 0.2 - 0.3;
        assert_eq!(sign_flip_p_value(&[noise, 0.0, 1.0]), sign_flip_p_value(&[0.0, 0.0, 1.0]));
    }
}
