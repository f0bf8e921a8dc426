//! Formats tables as CSV for spreadsheets.

use std::fmt::Write as _;

use proctor_types::escape_unprintable_line;

use crate::{Cell, Report, TRIALS, TrialRow};

/// Formats the table `trials`: one row per trial, in plan order. Cells with unknown values are
/// empty.
pub fn trials_csv(report: &Report) -> String {
    let names: Vec<&str> = TRIALS.iter().map(|column| column.info.name).collect();
    let mut out = format!("{}\n", names.join(","));
    for trial in &report.tasks {
        let arm = report.arms.iter().find(|arm| arm.arm == trial.arm);
        out += &csv_line(&TrialRow { trial, arm }.cells());
    }
    out
}

/// Formats one row of any table, including its newline.
pub fn csv_line(cells: &[Cell]) -> String {
    let fields: Vec<String> = cells.iter().map(format_cell).collect();
    format!("{}\n", fields.join(","))
}

/// Formats one row per group of each arm, like FEA-Bench's tables by repository category and by
/// number of added functions.
pub fn groups_csv(report: &Report) -> String {
    let mut out = String::from(
        "arm,arm_name,kind,group,tasks,trials,graded,resolved,resolved_rate,passed_rate,applied_rate\n",
    );
    for arm in &report.arms {
        let all = arm
            .groups
            .iter()
            .flat_map(|(kind, groups)| groups.iter().map(move |(name, group)| (kind, name, group)));
        for (kind, name, group) in all {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{},{},{kind},{},{},{},{},{},{},{},{}",
                arm.arm,
                csv_field(&arm.name),
                csv_field(name),
                group.tasks,
                group.trials,
                group.graded,
                group.resolved,
                group.resolved_rate,
                group.passed_rate,
                group.applied_rate,
            );
        }
    }
    out
}

fn format_cell(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Text(text) => csv_field(text),
        Cell::Integer(number) => number.to_string(),
        Cell::Number(number) => number.to_string(),
        Cell::Boolean(value) => value.to_string(),
    }
}

/// Formats a CSV field on one line. Escapes text that starts like a formula, because a spreadsheet
/// would evaluate it.
pub(crate) fn csv_field(text: &str) -> String {
    let text = escape_unprintable_line(text);
    let safe =
        if text.trim_start().starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if safe.contains([',', '"', ';']) {
        return format!("\"{}\"", safe.replace('"', "\"\""));
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::csv_field;

    #[test]
    fn csv_field_is_quoted_and_never_a_formula() {
        assert_eq!(csv_field("tools/gpt-5.1"), "tools/gpt-5.1");
        assert_eq!(csv_field("a,b"), "\"a,b\"");
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\u{a0}=1"] {
            assert!(csv_field(formula).starts_with('\''), "{formula:?}");
        }
        // Spreadsheets skip these characters before a formula.
        for formula in ["\t=1", "\r=1", "\u{200b}=1"] {
            assert!(csv_field(formula).starts_with('\\'), "{formula:?}");
        }
        assert_eq!(csv_field("=\"x\"\n,2"), "\"'=\"\"x\"\"\\n,2\"");
    }
}
