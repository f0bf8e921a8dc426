//! Summarizes a run by arm: scores with their intervals, cost, tokens and time.

use proctor_report::{ArmReport, Report, abbreviate_count, format_dollars, format_percent};
use serde::Serialize;

use super::{figures::resolved_chart, plot::StripChart};

/// The arms of a run with their results so far.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunSummary {
    /// `None` if the run has no arms.
    scores: Option<StripChart>,
    arms: Vec<ArmSummary>,
    controls: Vec<ArmSummary>,
    /// Whether an arm has trials without a verdict, and whether some numbers of tokens are
    /// estimates.
    is_incomplete: bool,
    is_estimated: bool,
}

#[derive(Debug, Clone, Serialize)]
struct ArmSummary {
    /// The arm's number in the chart. 0 for a control.
    number: usize,
    name: String,
    /// Number of graded trials, then the number of planned trials.
    graded: u64,
    trials: u64,
    resolved: String,
    /// The interval of the score. This field and the following ones are empty if the value is not
    /// known.
    interval: String,
    /// The fraction of fail-to-pass tests that pass. While verdicts are missing, the lowest and the
    /// highest value that it can reach.
    passed: String,
    paid: String,
    paid_each: String,
    tokens: String,
    steps: String,
    seconds: String,
}

impl RunSummary {
    pub fn from_report(report: &Report) -> Self {
        let study: Vec<(usize, &ArmReport)> = (1..).zip(report.arms_under_study()).collect();
        Self {
            scores: (!study.is_empty()).then(|| resolved_chart(&study)),
            arms: study.iter().map(|(number, arm)| summarize_arm(*number, arm)).collect(),
            controls: report.controls().into_iter().map(|arm| summarize_arm(0, arm)).collect(),
            is_incomplete: report.arms.iter().any(|arm| !arm.complete),
            is_estimated: report.arms.iter().any(|arm| arm.usage_estimated),
        }
    }
}

fn summarize_arm(number: usize, arm: &ArmReport) -> ArmSummary {
    let known = |is_known: bool, text: String| if is_known { text } else { String::new() };
    let about = if arm.usage_estimated { "~" } else { "" };
    let passed = match arm.complete {
        true => format_percent(arm.passed_rate),
        false => {
            let bounds = arm.passed_bounds;
            format!("{} to {}", format_percent(bounds.lower), format_percent(bounds.upper))
        }
    };
    let each = arm.per_resolved.and_then(|each| each.cost_usd);
    ArmSummary {
        number,
        name: arm.name.clone(),
        graded: arm.graded,
        trials: arm.trials,
        resolved: format_percent(arm.resolved_rate),
        interval: arm.intervals.resolved_rate.map_or_else(String::new, |[lower, upper]| {
            format!("{:.1} to {:.1}", lower * 100.0, upper * 100.0)
        }),
        passed,
        paid: known(arm.paid.cost_known, format!("{about}{}", format_dollars(arm.paid.cost_usd))),
        paid_each: each
            .map_or_else(String::new, |cost| format!("{about}{}", format_dollars(cost.value))),
        tokens: known(
            arm.are_token_counts_known(),
            format!(
                "{about}{} / {}",
                abbreviate_count(arm.tokens.input.mean),
                abbreviate_count(arm.tokens.output.mean)
            ),
        ),
        steps: known(arm.are_steps_known(), format!("{:.1}", arm.steps.mean)),
        seconds: known(arm.are_durations_known(), format!("{:.1} s", arm.wall_seconds.mean)),
    }
}

#[cfg(test)]
mod tests {
    use proctor_record::RunDir;
    use proctor_report::{TrialResult, read_trial_result};

    use super::*;
    use crate::{
        planned_trials,
        test_run::{finish_trial, write_plan},
    };

    fn results(finished: usize) -> Vec<TrialResult> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let plan = write_plan(&path, &["a"], 4, 1);
        for task in &plan.tasks[..finished] {
            finish_trial(&path, task, &plan.arms[0], true);
        }
        let run = RunDir::open_read_only(&path).unwrap();
        planned_trials(&plan).iter().map(|planned| read_trial_result(&run, planned)).collect()
    }

    #[test]
    fn missing_verdicts_make_the_passed_fraction_a_range() {
        for (finished, passed) in [(4, "100%"), (1, "25.0% to 100%")] {
            let report = Report::from_results(&results(finished));
            let summary = RunSummary::from_report(&report);
            assert_eq!(summary.arms[0].passed, passed);
            assert_eq!(summary.is_incomplete, finished < 4);
        }
    }

    #[test]
    fn estimates_are_marked() {
        let mut results = results(4);
        for estimated in [false, true] {
            results[0].outcome.as_mut().unwrap().spent.estimated = estimated;
            let arm = Report::from_results(&results).arms.remove(0);
            let summary = summarize_arm(1, &arm);
            assert_eq!(summary.paid.starts_with('~'), estimated, "{summary:?}");
            assert_eq!(summary.passed, "100%", "scores are not estimates");
        }
    }
}
