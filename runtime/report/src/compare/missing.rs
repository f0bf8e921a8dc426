//! Bounds how far missing verdicts could change a comparison.

use proctor_statistics as statistics;

use super::{comparison::MissingVerdicts, metric::Metric, shared::SharedTask};
use crate::TrialResult;

/// Computes the worst and the best case of a comparison. Returns `None` if no verdict is missing, or
/// if the metric is an amount, which has no highest value.
pub(super) fn bound_missing_verdicts<'tasks, 'trials: 'tasks>(
    metric: Metric,
    tasks: impl Iterator<Item = &'tasks SharedTask<'trials>> + Clone,
) -> Option<MissingVerdicts> {
    if matches!(metric, Metric::Tokens | Metric::Cost | Metric::Steps) {
        return None;
    }
    let trials: usize = tasks.clone().map(|task| task.a_missing + task.b_missing).sum();
    if trials == 0 {
        return None;
    }
    // A missing verdict counts as 0 for the arm that it doesn't favor.
    let favor = |a: f64, b: f64| -> Option<(f64, f64)> {
        let differences: Vec<f64> = tasks
            .clone()
            .map(|task| {
                statistics::difference(
                    mean(metric, &task.a, task.a_missing, a),
                    mean(metric, &task.b, task.b_missing, b),
                )
            })
            .collect();
        let p_value = statistics::paired_p_value(&differences)?;
        Some((differences.iter().sum::<f64>() / differences.len() as f64, p_value))
    };
    let ((lower, p_lower), (upper, p_upper)) = (favor(0.0, 1.0)?, favor(1.0, 0.0)?);
    Some(MissingVerdicts {
        trials: trials as u64,
        tasks: tasks.count() as u64,
        difference: [lower, upper],
        p_value: if lower > 0.0 || upper < 0.0 { p_lower.max(p_upper) } else { 1.0 },
        p_adjusted: None,
        is_difference_certain: false,
    })
}

/// Returns the mean over an arm's trials at one task. `assumed` is the value of each trial without a
/// verdict.
fn mean(metric: Metric, graded: &[&TrialResult], missing: usize, assumed: f64) -> f64 {
    let known: f64 = graded.iter().filter_map(|trial| metric.value_for(trial)).sum();
    (known + assumed * missing as f64) / (graded.len() + missing).max(1) as f64
}
