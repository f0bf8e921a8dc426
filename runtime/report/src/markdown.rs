//! Formats the report as Markdown for a pull request.

use std::fmt::Write as _;

use proctor_types::{ArmId, escape_unprintable_line};

use crate::{
    ArmReport, Comparison, GroupSelection, GroupTable, Report, abbreviate_count, exception_rows,
    format_percent, group_tables, noise_rows, notes::findings, text::format_exception_count,
};

/// Maximum number of arms for which all metrics are compared. With more arms, only `resolved` is
/// compared; `proctor compare` shows the rest.
const MAX_ARMS_WITH_ALL_METRICS: usize = 3;

/// Formats arms, groups, comparisons and findings as Markdown. Puts all text from a run into code
/// spans, so that the text cannot become a link, a mention or other markup.
pub fn report_markdown(
    report: &Report,
    comparison: Option<&Comparison>,
    selection: GroupSelection,
) -> String {
    let mut out = String::from(
        "| arm | Resolved | 95% | Passed | 95% | %Apply | tokens in / out | steps | tool calls | paid |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for arm in &report.arms {
        out.push_str(&arm_row(arm));
    }
    for table in group_tables(report, selection) {
        out.push_str(&group_section(report, &table));
    }
    out.push_str(&exceptions_table(report));
    out.push_str(&noise_section(report));
    if let Some(comparison) = comparison {
        out.push_str("\n#### Comparisons\n\n");
        let mut last: Option<(&ArmId, &ArmId)> = None;
        let mut last_sentence = String::new();
        let short = report.arms.len() > MAX_ARMS_WITH_ALL_METRICS;
        let pairs = comparison.pairs.iter().filter(|pair| !short || pair.metric == "resolved");
        let controls = comparison.controls.iter().filter(|pair| pair.metric == "resolved");
        let pairs = pairs.map(|pair| (pair, ""));
        let controls = controls.map(|pair| (pair, "control: "));
        for (pair, kind) in pairs.chain(controls) {
            let arms = (&pair.a_arm, &pair.b_arm);
            if !short && last.is_some_and(|last| last != arms) {
                out.push('\n');
            }
            last = Some(arms);
            let sentence = pair.sentence_with_escape(code_span);
            // If two arms have no results to compare, all their metrics have the same sentence.
            if sentence != last_sentence {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "- {kind}{sentence}");
            }
            last_sentence = sentence;
        }
    }
    let findings = findings(report);
    if !findings.is_empty() {
        out.push_str("\n#### Findings\n\n");
    }
    for finding in findings {
        let deeper = if finding.starts_with(' ') { "  " } else { "" };
        let _ = writeln!(out, "{deeper}- {}", code_span(finding.trim()));
    }
    out.push_str(
        "\nRates cover all planned trials. Means exclude infrastructure faults; `paid` includes retries.\n",
    );
    out
}

/// Formats the failed tests of each arm by exception.
fn exceptions_table(report: &Report) -> String {
    let rows = exception_rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let names: Vec<String> = report.arms.iter().map(|arm| code_span(&arm.name)).collect();
    let mut out = format!(
        "\n| failed tests | {} |\n| --- |{}\n",
        names.join(" | "),
        " ---: |".repeat(names.len())
    );
    for (class, counts) in rows {
        let cells: Vec<String> = counts
            .into_iter()
            .map(|count| count.map_or_else(String::new, format_exception_count))
            .collect();
        let _ = writeln!(out, "| {} | {} |", code_span(class), cells.join(" | "));
    }
    out
}

fn arm_row(arm: &ArmReport) -> String {
    let range = |ends: Option<[f64; 2]>| {
        ends.map_or_else(String::new, |[lower, upper]| {
            format!("{:.1} - {:.1}", lower * 100.0, upper * 100.0)
        })
    };
    let paid = match arm.paid.cost_known {
        true => format!("${:.4}", arm.paid.cost_usd),
        false => "unknown".to_owned(),
    };
    let paid =
        if arm.are_token_counts_known() || arm.paid.cost_usd > 0.0 { paid } else { "-".to_owned() };
    let tokens = match arm.are_token_counts_known() {
        true => {
            let about = if arm.usage_estimated { "about " } else { "" };
            format!(
                "{about}{} / {}",
                abbreviate_count(arm.tokens.input.mean),
                abbreviate_count(arm.tokens.output.mean)
            )
        }
        false => "-".to_owned(),
    };
    let steps =
        if arm.are_steps_known() { format!("{:.1}", arm.steps.mean) } else { "-".to_owned() };
    let calls = arm.tool_calls.map_or_else(|| "-".into(), |calls| format!("{:.1}", calls.mean));
    format!(
        "| {} | {}/{} {} | {} | {} | {} | {} | {tokens} | {steps} | {calls} | {paid} |\n",
        code_span(&arm.name),
        arm.resolved,
        arm.trials,
        format_percent(arm.resolved_rate),
        range(arm.intervals.resolved_rate),
        format_percent(arm.passed_rate),
        range(arm.intervals.passed_rate),
        format_percent(arm.applied_rate),
    )
}

/// Formats a table of how limits and waits affected each arm.
fn noise_section(report: &Report) -> String {
    let rows = noise_rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let heads: String =
        report.arms.iter().map(|arm| format!(" {} |", code_span(&arm.name))).collect();
    let mut out = format!("\n#### Noise\n\n| noise |{heads}\n| --- |");
    out.push_str(&" ---: |".repeat(report.arms.len()));
    out.push('\n');
    for (name, cells) in rows {
        out.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
    out
}

/// Formats resolved and total trials, by group and arm.
fn group_section(report: &Report, table: &GroupTable<'_>) -> String {
    let kind = table.kind.replace('_', " ");
    let heads: String =
        report.arms.iter().map(|arm| format!(" {} |", code_span(&arm.name))).collect();
    let mut out = format!("\n#### By {kind}\n\n| {kind} |{heads}\n| --- |");
    out.push_str(&" ---: |".repeat(report.arms.len()));
    out.push('\n');
    for (name, cells) in &table.rows {
        out.push_str(&format!("| {} |", code_span(name)));
        for group in cells {
            out.push_str(&group.map_or_else(
                || " |".to_owned(),
                |group| {
                    let rate = format_percent(group.resolved_rate);
                    format!(" {}/{} {rate} |", group.resolved, group.trials)
                },
            ));
        }
        out.push('\n');
    }
    out
}

/// Formats text as a code span with a fence that does not occur in the text. Vertical bars are
/// escaped, because they would end a table cell even inside a code span.
fn code_span(text: &str) -> String {
    let text = escape_unprintable_line(text).replace('|', "\u{a6}");
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if text.trim().is_empty() {
        return "(no text)".to_owned();
    }
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::code_span;

    #[test]
    fn code_span_contains_any_text() {
        assert_eq!(code_span("tools/gpt-5.1"), "`tools/gpt-5.1`");
        assert_eq!(code_span("a`b``c"), "```a`b``c```");
        assert_eq!(code_span("`@everyone`"), "`` `@everyone` ``");
        assert_eq!(code_span("a|b\nc\u{202e}"), "`a\u{a6}b\\nc\\u{202e}`");
    }
}
