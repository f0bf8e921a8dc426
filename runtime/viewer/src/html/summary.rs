//! The summary at the top of the report: which arm is better, why trials fail, and whether the
//! result can be trusted.

use std::collections::BTreeSet;

use proctor_report::{
    ArmReport, CheckLevel, Comparison, Headline, Report, build_grid, failure_reasons, headlines,
    single_arm_headline, soundness_checks,
};
use proctor_types::count_with_noun;
use serde::Serialize;

use crate::html::figures::NumberedArms;

/// Maximum number of comparisons that get a headline. The forest plot shows all of them.
const MAX_HEADLINES: usize = 6;
/// Maximum number of failure reasons named in an arm's line.
const MAX_NAMED_REASONS: usize = 3;

#[derive(Serialize)]
pub(crate) struct HeadlineRow {
    tone: &'static str,
    text: String,
    more: String,
}

#[derive(Serialize)]
pub(crate) struct FailureRow<'a> {
    number: usize,
    name: &'a str,
    text: String,
}

#[derive(Serialize)]
pub(crate) struct CheckRow {
    tone: &'static str,
    sign: &'static str,
    text: String,
}

#[derive(Serialize)]
pub(crate) struct VarianceRow<'a> {
    name: &'a str,
    between_tasks: f64,
    between_attempts: f64,
    /// Number of tasks that some attempts resolve and others don't.
    mixed: usize,
}

/// Formats the report's size: `3 arms and 2 controls, 30 tasks, 150 trials`.
pub(crate) fn format_report_size(report: &Report) -> String {
    let tasks: BTreeSet<_> = report.tasks.iter().map(|trial| &trial.task).collect();
    let controls = match report.controls().len() {
        0 => String::new(),
        count => format!(" and {}", count_with_noun(count, "control")),
    };
    let arms = count_with_noun(report.arms_under_study().len(), "arm");
    let (tasks, trials) =
        (count_with_noun(tasks.len(), "task"), count_with_noun(report.tasks.len(), "trial"));
    format!("{arms}{controls}, {tasks}, {trials}")
}

/// Returns the headlines: one line per comparison, or a single line if there is only one arm.
pub(crate) fn headline_rows(
    report: &Report,
    comparison: Option<&Comparison>,
) -> (Vec<HeadlineRow>, String) {
    let all = comparison.map(headlines).unwrap_or_default();
    let more = all.len().saturating_sub(MAX_HEADLINES);
    let row = |headline: Headline| HeadlineRow {
        tone: if headline.is_distinguishable { "better" } else { "same" },
        text: headline.text,
        more: headline.detail,
    };
    let mut rows: Vec<HeadlineRow> = all.into_iter().take(MAX_HEADLINES).map(row).collect();
    if rows.is_empty()
        && let Some(text) = single_arm_headline(report)
    {
        rows.push(HeadlineRow { tone: "same", text, more: String::new() });
    }
    let more = match more {
        0 => String::new(),
        count => format!("{} more: see Differences.", count_with_noun(count, "comparison")),
    };
    (rows, more)
}

pub(crate) fn failure_rows<'a>(study: &NumberedArms<'a>) -> Vec<FailureRow<'a>> {
    let row = |(number, arm): &(usize, &'a ArmReport)| {
        let failed: u64 = arm.reasons.values().sum();
        let reasons = failure_reasons(arm, MAX_NAMED_REASONS)?;
        let text = format!("{failed} of {}: {reasons}", count_with_noun(arm.trials, "trial"));
        Some(FailureRow { number: *number, name: &arm.name, text })
    };
    study.iter().filter_map(row).collect()
}

pub(crate) fn check_rows(report: &Report) -> Vec<CheckRow> {
    let all = soundness_checks(report).into_iter();
    all.map(|check| {
        let (tone, sign) = match check.level {
            CheckLevel::Good => ("good", "\u{2713}"),
            CheckLevel::Note => ("note", "i"),
            CheckLevel::Warning => ("warning", "!"),
        };
        CheckRow { tone, sign, text: check.text }
    })
    .collect()
}

pub(crate) fn attempts_note(report: &Report) -> String {
    match report.tasks.iter().map(|trial| trial.attempt).max() {
        None | Some(0 | 1) => "Each task has one attempt, so variation between attempts is not \
                               measured. The intervals cover the choice of tasks."
            .to_owned(),
        Some(most) => format!(
            "Each task has {most} attempts. Differences between attempts at the same task are \
             due to chance; the table shows their part of the variance."
        ),
    }
}

pub(crate) fn variance_rows<'a>(report: &Report, study: &NumberedArms<'a>) -> Vec<VarianceRow<'a>> {
    let arms: Vec<&ArmReport> = study.iter().map(|(_, arm)| *arm).collect();
    let grid = build_grid(report, &arms);
    let row = |(index, (_, arm)): (usize, &(usize, &'a ArmReport))| {
        let variance = arm.variance?;
        Some(VarianceRow {
            name: &arm.name,
            between_tasks: variance.between_tasks,
            between_attempts: variance.between_attempts,
            mixed: grid.mixed_task_count(index),
        })
    };
    study.iter().enumerate().filter_map(row).collect()
}
