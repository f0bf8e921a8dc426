//! Counts the labels that people gave to trials.

use proctor_types::Label;

use crate::Report;

/// Adds a run's labels to the trials in its report, and counts trials by label for each arm.
pub fn add_labels(report: &mut Report, labels: &[Label]) {
    for trial in &mut report.tasks {
        let of_it = labels.iter().filter(|label| {
            let id = &label.trial;
            id.task == trial.task && id.arm == trial.arm && id.attempt == trial.attempt
        });
        let new: Vec<&str> = of_it.map(|label| label.label.as_str()).collect();
        for label in new {
            if trial.labels.insert(label.to_owned())
                && let Some(arm) = report.arms.iter_mut().find(|arm| arm.arm == trial.arm)
            {
                *arm.labels.entry(label.to_owned()).or_default() += 1;
            }
        }
    }
}
