//! What a number of tasks can show.

use crate::normal::{quantile, two_sided};

/// Tasks that McNemar's test needs to see `difference` where the arms disagree on the share `discordant` of
/// the tasks. `None` where nothing is to be seen: no difference, or more than the disagreement.
///
/// Miettinen 1968; Connor 1987.
pub fn discordant_tasks(difference: f64, discordant: f64, alpha: f64, power: f64) -> Option<u64> {
    let d = difference.abs();
    let possible = d > 0.0 && d <= discordant && discordant <= 1.0;
    possible.then(|| (needed(d, discordant, alpha, power)).ceil() as u64)
}

fn needed(d: f64, discordant: f64, alpha: f64, power: f64) -> f64 {
    let root = two_sided(1.0 - alpha) * discordant.sqrt()
        + quantile(power) * (discordant - d * d).max(0.0).sqrt();
    (root / d).powi(2)
}

/// The smallest difference that so many tasks show, by bisection of [`discordant_tasks`]. `None` where not
/// even a difference as large as the disagreement would be seen.
pub fn discordant_difference(tasks: u64, discordant: f64, alpha: f64, power: f64) -> Option<f64> {
    let tasks = tasks as f64;
    if discordant <= 0.0 || needed(discordant, discordant, alpha, power) > tasks {
        return None;
    }
    let (mut low, mut high) = (0.0, discordant);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if needed(middle, discordant, alpha, power) > tasks { low = middle } else { high = middle }
    }
    Some(high)
}

/// Tasks that a paired comparison of means needs to see `difference` where the differences of single tasks
/// have the standard deviation `deviation`. `None` without a difference.
pub fn tasks_for_mean_difference(
    difference: f64,
    deviation: f64,
    alpha: f64,
    power: f64,
) -> Option<u64> {
    let z = two_sided(1.0 - alpha) + quantile(power);
    (difference != 0.0).then(|| (z * deviation / difference).powi(2).ceil().max(2.0) as u64)
}

/// The smallest mean difference that so many tasks show. `None` without a task.
pub fn smallest_mean_difference(tasks: u64, deviation: f64, alpha: f64, power: f64) -> Option<f64> {
    let z = two_sided(1.0 - alpha) + quantile(power);
    (tasks > 0).then(|| z * deviation / (tasks as f64).sqrt())
}
