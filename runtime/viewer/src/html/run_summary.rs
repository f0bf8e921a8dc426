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
        }
    }
}

fn summarize_arm(number: usize, arm: &ArmReport) -> ArmSummary {
    let known = |is_known: bool, text: String| if is_known { text } else { String::new() };
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
        passed: format_percent(arm.passed_rate),
        paid: known(arm.paid.cost_known, format_dollars(arm.paid.cost_usd)),
        paid_each: each.map_or_else(String::new, |cost| format_dollars(cost.value)),
        tokens: known(
            arm.are_token_counts_known(),
            format!(
                "{} / {}",
                abbreviate_count(arm.tokens.input.mean),
                abbreviate_count(arm.tokens.output.mean)
            ),
        ),
        steps: known(arm.are_steps_known(), format!("{:.1}", arm.steps.mean)),
        seconds: known(arm.are_durations_known(), format!("{:.1} s", arm.wall_seconds.mean)),
    }
}
