//! Splits the variance of results into variance between tasks and variance between attempts at one
//! task.

/// The variance of one trial, split into its components.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceComponents {
    /// Variance of the tasks' own rates. More tasks average it out, but more attempts do not.
    pub between_tasks: f64,
    /// Variance between attempts at one task. More tasks average it out, and so do more attempts.
    pub between_attempts: f64,
    /// The fraction of the total variance that is between tasks (the intraclass correlation). 0 if
    /// nothing varies.
    pub intraclass_correlation: f64,
}

impl VarianceComponents {
    /// Returns the standard error of the mean over `tasks` tasks with `attempts` attempts each.
    pub fn standard_error(&self, tasks: f64, attempts: f64) -> f64 {
        ((self.between_tasks + self.between_attempts / attempts) / tasks).sqrt()
    }
}

/// Estimates the components by a one-way random-effects analysis of variance, using the method of
/// moments. Each list contains the attempts at one task. A negative estimate between tasks is
/// replaced with 0. Returns `None` with fewer than two tasks, or if no task has two attempts.
///
/// Searle, Casella and McCulloch, *Variance Components*, section 3.6 (unequal numbers of attempts).
pub fn variance_components(tasks: &[Vec<f64>]) -> Option<VarianceComponents> {
    let tasks: Vec<&Vec<f64>> = tasks.iter().filter(|values| !values.is_empty()).collect();
    let groups = tasks.len() as f64;
    let trials: f64 = tasks.iter().map(|values| values.len() as f64).sum();
    if tasks.len() < 2 || trials <= groups {
        return None;
    }
    let mean_of = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean = tasks.iter().map(|values| values.iter().sum::<f64>()).sum::<f64>() / trials;
    let (mut between, mut within, mut sizes) = (0.0, 0.0, 0.0);
    for values in tasks {
        let (own, size) = (mean_of(values), values.len() as f64);
        between += size * (own - mean).powi(2);
        within += values.iter().map(|value| (value - own).powi(2)).sum::<f64>();
        sizes += size * size;
    }
    let between_attempts = within / (trials - groups);
    let typical = (trials - sizes / trials) / (groups - 1.0);
    let between_tasks = ((between / (groups - 1.0) - between_attempts) / typical).max(0.0);
    let all = between_tasks + between_attempts;
    let correlation = if all > 0.0 { between_tasks / all } else { 0.0 };
    Some(VarianceComponents {
        between_tasks,
        between_attempts,
        intraclass_correlation: correlation,
    })
}
