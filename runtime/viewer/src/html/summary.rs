//! The summary at the top of the report: which arm is better, why trials fail, and whether the
//! result can be trusted.

use std::collections::BTreeSet;

use proctor_report::{
    ArmReport, CheckLevel, Comparison, DifferingFactor, Headline, Report, build_grid,
    failure_reasons, format_dollars, format_percent, headlines, ranking_sentence,
    single_arm_headline, soundness_checks,
};
use proctor_types::count_with_noun;
use serde::Serialize;

use crate::html::figures::NumberedArms;

/// Maximum number of comparisons that get a headline. The forest plot shows all of them.
const MAX_HEADLINES: usize = 6;

#[derive(Serialize)]
pub(crate) struct HeadlineRow {
    tone: &'static str,
    text: String,
    more: String,
}

/// An arm's score and price.
#[derive(Serialize)]
pub(crate) struct ScoreRow<'a> {
    number: usize,
    name: &'a str,
    resolved: String,
    /// Empty if there is no interval.
    interval: String,
    paid: String,
    paid_each: String,
}

/// A factor that differs, with one value per arm under study.
#[derive(Serialize)]
pub(crate) struct FactorRow {
    name: String,
    is_limit: bool,
    values: Vec<String>,
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

/// Returns one row per arm under study: its score and its price.
pub(crate) fn score_rows<'a>(study: &NumberedArms<'a>) -> Vec<ScoreRow<'a>> {
    let about = |arm: &ArmReport| if arm.usage_estimated { "~" } else { "" };
    let row = |(number, arm): &(usize, &'a ArmReport)| ScoreRow {
        number: *number,
        name: &arm.name,
        resolved: format!(
            "{} ({}/{})",
            format_percent(arm.resolved_rate),
            arm.resolved,
            arm.trials
        ),
        interval: arm.intervals.resolved_rate.map_or_else(String::new, |[lower, upper]| {
            format!("{:.1} to {:.1}", lower * 100.0, upper * 100.0)
        }),
        paid: match arm.paid.cost_known {
            true => format!("{}{}", about(arm), format_dollars(arm.paid.cost_usd)),
            false => "unknown".to_owned(),
        },
        paid_each: match arm.per_resolved.and_then(|each| each.cost_usd) {
            Some(cost) => format!("{}{}", about(arm), format_dollars(cost.value)),
            None => "-".to_owned(),
        },
    };
    study.iter().map(row).collect()
}

/// Returns the sentence that summarizes all comparisons. Empty if a headline says the same.
pub(crate) fn ranking_text(report: &Report, comparison: Option<&Comparison>) -> String {
    comparison.and_then(|all| ranking_sentence(report, all)).unwrap_or_default()
}

/// Describes the factors that differ between the arms under study, one row per factor.
pub(crate) fn factor_rows(report: &Report) -> Vec<FactorRow> {
    let row = |one: DifferingFactor| FactorRow {
        name: one.factor.replace('_', " "),
        is_limit: one.is_limit(),
        values: one.value_strings(),
    };
    report.find_differing_factors().into_iter().map(row).collect()
}

pub(crate) fn failure_rows<'a>(study: &NumberedArms<'a>) -> Vec<FailureRow<'a>> {
    let row = |(number, arm): &(usize, &'a ArmReport)| {
        let (failed, missing) = (arm.graded - arm.resolved, arm.trials - arm.graded);
        if failed + missing == 0 {
            return None;
        }
        let fail = if failed == 1 { "fails" } else { "fail" };
        let trials = count_with_noun(arm.trials, "trial");
        let missing = match missing {
            0 => String::new(),
            count => format!(", {count} without a verdict"),
        };
        let reasons = failure_reasons(arm, usize::MAX);
        let reasons = reasons.map_or_else(String::new, |reasons| format!(": {reasons}"));
        let text = format!("{failed} of {trials} {fail}{missing}{reasons}");
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
