//! Adds the contents of a quality file to a report.

use std::collections::BTreeMap;

use proctor_types::{QualityFile, TaskId};

use crate::{Report, TrialResult, UnmarkedScore, rounding::round_to_four_decimals};

/// Adds the contents of a quality file to a report. Adds each task's marks to its trials, a score
/// without the marked tasks to each arm, and the file's remarks about the tasks to the report.
/// `trials` must be the trials from which the report was built.
pub fn add_quality_marks(report: &mut Report, trials: &[TrialResult], file: &QualityFile) {
    let mut digests: BTreeMap<&TaskId, &str> = BTreeMap::new();
    for (told, trial) in report.tasks.iter_mut().zip(trials) {
        let digest = trial.facts.revision.as_deref().unwrap_or_default();
        digests.insert(&trial.task, digest);
        told.marks =
            file.task_quality(&trial.task, digest).map(|one| one.marks.clone()).unwrap_or_default();
    }
    for arm in &mut report.arms {
        let own =
            report.tasks.iter().filter(|trial| trial.arm == arm.arm && trial.marks.is_empty());
        let own: Vec<_> = own.collect();
        let resolved = own.iter().filter(|trial| trial.resolved == Some(true)).count() as u64;
        let passed: f64 = own.iter().filter_map(|trial| trial.passed_rate).sum();
        let share = |sum: f64| round_to_four_decimals(sum / own.len().max(1) as f64);
        arm.unmarked = Some(UnmarkedScore {
            trials: own.len() as u64,
            resolved,
            resolved_rate: share(resolved as f64),
            passed_rate: share(passed),
        });
    }
    report.remarks.push(file.summary_sentence(digests));
}
