//! Tables of failure reasons, limits and exceptions, with a bar in each cell.

use std::collections::{BTreeMap, BTreeSet};

use proctor_report::{
    ArmReport, ExceptionCount, Report, exception_rows, format_percent, reason_words,
};
use proctor_types::{ArmId, FailureReason};
use serde::Serialize;

use crate::html::{figures::NumberedArms, plot::round_to_hundredth};

/// A table with one column per arm and a bar in each cell.
#[derive(Debug, Serialize)]
pub(crate) struct BarTable {
    pub(crate) first_header: &'static str,
    pub(crate) caption: &'static str,
    pub(crate) rows: Vec<BarRow>,
}

#[derive(Debug, Serialize)]
pub(crate) struct BarRow {
    pub(crate) name: String,
    pub(crate) cells: Vec<BarCell>,
}

#[derive(Debug, Serialize)]
pub(crate) struct BarCell {
    pub(crate) text: String,
    /// Width of the bar as a percentage of the cell's width. 0 means no bar.
    pub(crate) width: f64,
}

/// Builds a table from rows with one value per arm. A bar of full width represents
/// `full_width_value`, or the table's largest value if `full_width_value` is `None`.
fn bar_table(
    (first, caption): (&'static str, &'static str),
    rows: Vec<(String, Vec<f64>)>,
    full_width_value: Option<f64>,
    format_value: impl Fn(f64) -> String,
) -> Option<BarTable> {
    let largest = rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
    let most = full_width_value.unwrap_or(largest);
    if largest <= 0.0 {
        return None;
    }
    let cell = |value: f64| BarCell {
        text: format_value(value),
        width: round_to_hundredth(100.0 * (value / most).clamp(0.0, 1.0)),
    };
    let row = |(name, values): (String, Vec<f64>)| BarRow {
        name,
        cells: values.into_iter().map(&cell).collect(),
    };
    Some(BarTable { first_header: first, caption, rows: rows.into_iter().map(row).collect() })
}

pub(crate) fn reasons_table(study: &NumberedArms<'_>) -> Option<BarTable> {
    let count =
        |arm: &ArmReport, reason: FailureReason| arm.reasons.get(&reason).copied().unwrap_or(0);
    let sum = |reason: FailureReason| study.iter().map(|(_, arm)| count(arm, reason)).sum::<u64>();
    let mut all: Vec<FailureReason> =
        FailureReason::ALL.into_iter().filter(|reason| sum(*reason) > 0).collect();
    all.sort_by_key(|reason| std::cmp::Reverse(sum(*reason)));
    let row = |reason: FailureReason| {
        let cells: Vec<f64> = study.iter().map(|(_, arm)| count(arm, reason) as f64).collect();
        (reason_words(reason).to_owned(), cells)
    };
    let caption = "Trials that failed or have no verdict, by the first matching reason.";
    bar_table(("reason", caption), all.into_iter().map(row).collect(), None, format_count)
}

pub(crate) fn limits_table(study: &NumberedArms<'_>) -> Option<BarTable> {
    let kinds: BTreeSet<&String> =
        study.iter().flat_map(|(_, arm)| arm.limit_bound.keys()).collect();
    let row = |kind: &String| {
        let share = |arm: &ArmReport| arm.limit_bound.get(kind).copied().unwrap_or(0.0);
        let cells: Vec<f64> = study.iter().map(|(_, arm)| share(arm)).collect();
        (kind.replace('_', " "), cells)
    };
    let caption = "Fraction of all trials that ended at their own limit, including trials that are \
                   listed above with another reason.";
    bar_table(("limit", caption), kinds.into_iter().map(row).collect(), Some(1.0), format_percent)
}

pub(crate) fn exceptions_table(report: &Report, study: &NumberedArms<'_>) -> Option<BarTable> {
    let of_arm: BTreeMap<&ArmId, usize> = report.arms.iter().map(|arm| &arm.arm).zip(0..).collect();
    let row = |(class, counts): (&str, Vec<Option<ExceptionCount>>)| {
        let count = |arm: &ArmReport| {
            let counts = of_arm.get(&arm.arm).and_then(|index| counts.get(*index).copied());
            counts.flatten().map_or(0.0, |count| count.trials as f64)
        };
        let cells: Vec<f64> = study.iter().map(|(_, arm)| count(arm)).collect();
        (class.to_owned(), cells)
    };
    // Count trials instead of tests: if a test file cannot be imported, all its tests count as one.
    let caption = "Trials in which at least one test failed with this exception. A trial may count \
                   in several rows.";
    let mut rows: Vec<(String, Vec<f64>)> = exception_rows(report).into_iter().map(row).collect();
    let trials = |values: &[f64]| values.iter().sum::<f64>();
    rows.sort_by(|(_, one), (_, other)| trials(other).total_cmp(&trials(one)));
    bar_table(("exception", caption), rows, None, format_count)
}

fn format_count(count: f64) -> String {
    if count > 0.0 { format!("{count:.0}") } else { String::new() }
}
