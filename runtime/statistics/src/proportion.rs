//! Intervals of a proportion.

use crate::{Interval, normal::two_sided_z};

/// Returns Wilson's score interval, or `None` without trials. Counts may be fractional, because
/// effective numbers of trials are.
///
/// Wilson 1927; recommended by Brown, Cai and DasGupta 2001 even for few trials.
pub fn wilson_interval(successes: f64, trials: f64, level: f64) -> Option<Interval> {
    if trials.is_nan() || trials <= 0.0 {
        return None;
    }
    let share = (successes / trials).clamp(0.0, 1.0);
    let z2 = two_sided_z(level).powi(2);
    let center = share + z2 / (2.0 * trials);
    let half = (z2 * (share * (1.0 - share) / trials + z2 / (4.0 * trials * trials))).sqrt();
    let scale = 1.0 + z2 / trials;
    // Rounding must not move the end away from 0 or 1.
    let lower = if share <= 0.0 { 0.0 } else { ((center - half) / scale).max(0.0) };
    let upper = if share >= 1.0 { 1.0 } else { ((center + half) / scale).min(1.0) };
    Some([lower, upper])
}

/// Returns Wilson's interval for a proportion of clustered trials. Each cluster is one task, given
/// as successes and trials. Attempts at one task are correlated, so they carry less information
/// than the same number of tasks.
///
/// The interval uses the effective number of trials, p (1 - p) / variance, where p is the
/// proportion, and the variance of the ratio is computed between clusters. This number is at least
/// the number of tasks and at most the number of trials. With one trial per task, the result equals
/// [`wilson_interval`].
///
/// Korn and Graubard 1998; Dean and Pagano 2015 (their variant of Wilson's interval).
pub fn clustered_wilson_interval(clusters: &[(f64, f64)], level: f64) -> Option<Interval> {
    let tasks = clusters.iter().filter(|(_, trials)| *trials > 0.0).count() as f64;
    let successes: f64 = clusters.iter().map(|(successes, _)| successes).sum();
    let trials: f64 = clusters.iter().map(|(_, trials)| trials).sum();
    let share = successes / trials;
    let squares: f64 = clusters.iter().map(|(s, m)| (s - share * m).powi(2)).sum();
    let variance = tasks / (tasks - 1.0) * squares / (trials * trials);
    let spread = share * (1.0 - share);
    let effective =
        if tasks > 1.0 && variance > 0.0 && spread > 0.0 { spread / variance } else { tasks };
    let effective = effective.min(trials).max(tasks);
    wilson_interval(share * effective, effective, level)
}
