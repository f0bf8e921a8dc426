//! FEA-Bench's tables for single-response trials.

use super::numbers::SingleShotReport;
use crate::{ArmReport, Report, format::format_percent, table::format_table};

/// The mark for a prompt that does not fit the model's context window.
pub(crate) const BEYOND_WINDOW_MARK: &str = "x";

/// Formats FEA-Bench's tables: %Apply and %Resolved, and the files that were shown. Empty if there
/// are no single-response arms.
pub(crate) fn format_tables(report: &Report) -> String {
    let arms: Vec<(&ArmReport, &SingleShotReport)> =
        report.arms.iter().filter_map(|arm| Some((arm, arm.single_shot.as_ref()?))).collect();
    if arms.is_empty() {
        return String::new();
    }
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_percent);
    let headers =
        ["single-shot", "%Apply", "whole", "%Resolved", "precision", "recall", "recall\nall"];
    let rows = arms.iter().map(|(arm, single)| {
        // As in the paper's Table 2, show the mark in a cell if none of the arm's prompts fits.
        let fits = single.beyond_window < arm.trials;
        let rate =
            |rate: f64| if fits { format_percent(rate) } else { BEYOND_WINDOW_MARK.to_owned() };
        vec![
            arm.name.clone(),
            rate(arm.applied_rate),
            rate(single.whole_rate),
            rate(arm.resolved_rate),
            share(single.precision),
            share(single.recall),
            share(single.recall_all),
        ]
    });
    let mut out = format!("\n{}", format_table(&headers, rows, |column| column > 0));
    let probes: Vec<_> =
        arms.iter().filter_map(|(arm, single)| Some((arm, single.probe?))).collect();
    if !probes.is_empty() {
        let headers = [
            "given only the request",
            "definitions\nin the gold",
            "named in\nthe file",
            "signature",
        ];
        let rows = probes.iter().map(|(arm, probe)| {
            vec![
                arm.name.clone(),
                probe.gold.to_string(),
                probe.names.to_string(),
                probe.signatures.to_string(),
            ]
        });
        out.push('\n');
        out.push_str(&format_table(&headers, rows, |column| column > 0));
    }
    out
}
