//! Formats the report for a terminal.

use std::{collections::BTreeSet, fmt::Write as _};

use proctor_types::count_with_noun;

use crate::{
    ArmReport, Comparison, ExceptionCount, GroupSelection, GroupTable, Ratio, Report,
    compare::headlines,
    endings::ending_words,
    format::{abbreviate_count, format_dollars, format_interval, format_percent},
    grid::{build_grid, cell_text},
    group_tables,
    lines::{wrap_long_lines, wrap_paragraph},
    notes::{DetailLevel, FindingNote, FindingRank, notes},
    ranking::ranking_sentence,
    single_shot::format_tables,
    spread::displayed_ks,
    table::{self, format_table},
};

/// Parts of the report that are shown even if they do not fit on a screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// A table of tasks by arms.
    pub show_tasks: bool,
    /// All findings, with a line for each trial.
    pub show_findings: bool,
    /// Every table of groups.
    pub show_groups: bool,
}

/// Number of lines on a screen. Parts of the report that do not fit are left out. In that case, the
/// last line names the options that show them.
const SCREEN_LINES: usize = 50;
/// Number of lines reserved for the sentence that names the omitted parts.
const OMISSION_NOTE_LINES: usize = 2;
/// Number of lines reserved for findings. Tables that do not fit next to them are left out.
const MIN_FINDING_LINES: usize = 10;
/// Maximum number of headlines. `proctor compare` shows all of them.
const MAX_HEADLINES: usize = 3;

/// Formats the report without comparisons. See [`report_text_with_comparison`].
pub fn report_text(report: &Report, options: TextOptions) -> String {
    report_text_with_comparison(report, None, options)
}

/// Formats headlines, the arms' results and usage, and as many tasks, endings, groups and findings
/// as fit on a screen. Findings about missing, corrupt or suspect results have priority. If a
/// verdict is missing, the first line says so.
///
/// The result is plain text without colors. Tables fit into 80 columns, and the text ends with a
/// newline.
pub fn report_text_with_comparison(
    report: &Report,
    comparison: Option<&Comparison>,
    options: TextOptions,
) -> String {
    if report.arms.is_empty() {
        return "No trials.\n".into();
    }
    let mut out = String::new();
    if !report.is_complete() {
        let sum = |of: fn(&ArmReport) -> u64| report.arms.iter().map(of).sum::<u64>();
        let (graded, trials) = (sum(|arm| arm.graded), sum(|arm| arm.trials));
        let have = if trials == 1 { "has" } else { "have" };
        let trials = count_with_noun(trials, "trial");
        let _ = writeln!(out, "incomplete: {graded} of {trials} {have} a verdict");
    }
    if let Some(sentence) = comparison.and_then(|all| ranking_sentence(report, all)) {
        let _ = writeln!(out, "{}", wrap_paragraph(&sentence));
    }
    out.push_str(&headline_text(comparison));
    let (study, (used, unused)) = (report.arms_under_study(), split_controls(report.controls()));
    out.push_str(&results_table("arm", &study));
    if !used.is_empty() {
        out.push_str(&results_table("control", &used));
    }
    for arm in unused {
        let (resolved, trials) = (arm.resolved, arm.trials);
        let passed = format_percent(arm.passed_rate);
        let _ = writeln!(
            out,
            "control {}: {resolved}/{trials} resolved, {passed} of F2P passed",
            arm.name
        );
    }
    let all: Vec<&ArmReport> = study.iter().chain(&used).copied().collect();
    out.push_str(&usage_table(&all));
    out.push_str(LEGEND);
    let single = format_tables(report);
    let mut room = SCREEN_LINES.saturating_sub(
        count_terminal_lines(&out) + count_terminal_lines(&single) + OMISSION_NOTE_LINES,
    );

    let detail =
        if options.show_findings { DetailLevel::LinePerTrial } else { DetailLevel::OneLine };
    let notes = notes(report, detail);
    let room_of_notes =
        if options.show_findings { usize::MAX } else { room.max(MIN_FINDING_LINES) };
    let (below, more) = fit_notes(&notes, room_of_notes);
    room = room.saturating_sub(count_terminal_lines(&below));

    let mut left_out: Vec<String> = Vec::new();
    // Only build a table if there is room for its minimum number of lines.
    let mut part =
        |make: &dyn Fn() -> String, least: usize, is_wanted: bool, option: Option<&str>| {
            let table = if is_wanted || least <= room { make() } else { String::new() };
            let size = count_terminal_lines(&table).max(least);
            if !is_wanted && size > room {
                left_out.extend(option.map(str::to_owned));
                return String::new();
            }
            room = room.saturating_sub(size);
            table
        };
    let count = report.tasks.iter().map(|trial| &trial.task).collect::<BTreeSet<_>>().len();
    let tasks = part(&|| tasks_table(report), count, options.show_tasks, Some("tasks (--tasks)"));
    let exceptions = part(&|| exceptions_table(report), 0, false, None);
    let endings = part(&|| endings_table(report), 0, false, None);
    let steps = part(&|| per_step_table(&all), 0, false, None);
    let all_groups = || group_tables_text(report, options.show_groups);
    let groups = part(&all_groups, 0, options.show_groups, Some("groups (--groups)"));
    if more > 0 {
        left_out.push(format!("{} (--findings)", count_with_noun(more, "finding")));
    }

    for table in [steps, tasks, single, endings, exceptions, groups] {
        out.push_str(&table);
    }
    out.push_str(&below);
    if !left_out.is_empty() {
        let _ = writeln!(out, "left out: {}", left_out.join(", "));
    }
    out
}

/// Formats the first headlines, each as a paragraph 80 columns wide.
fn headline_text(comparison: Option<&Comparison>) -> String {
    let all = comparison.map(headlines).unwrap_or_default();
    let mut out = String::new();
    for headline in all.iter().take(MAX_HEADLINES) {
        let _ = writeln!(out, "{}", wrap_paragraph(&headline.text));
    }
    if let Some(more) = all.len().checked_sub(MAX_HEADLINES).filter(|more| *more > 0) {
        let pairs = if more == 1 { "pair" } else { "pairs" };
        let _ = writeln!(out, "{more} more {pairs}: `proctor compare`");
    }
    out
}

/// Separates the controls that call a model, such as an earlier version of an agent, from the
/// others.
fn split_controls(controls: Vec<&ArmReport>) -> (Vec<&ArmReport>, Vec<&ArmReport>) {
    controls.into_iter().partition(|arm| arm.steps.max > 0)
}

/// Returns the notes that fit into `max_lines` lines, and the number of notes left out. Chooses
/// pinned notes first, then the others in the order of their ranks, but returns the chosen notes in
/// their original order.
fn fit_notes(notes: &[FindingNote], max_lines: usize) -> (String, usize) {
    let format_note = |note: &FindingNote| wrap_long_lines(&format!("{}\n", note.lines.join("\n")));
    let texts: Vec<String> = notes.iter().map(format_note).collect();
    let mut is_chosen = vec![false; notes.len()];
    let mut lines_left = max_lines;
    let of_rank = |rank: FindingRank| {
        notes.iter().enumerate().filter(move |(_, note)| note.rank == rank && !note.is_pinned)
    };
    let pinned = notes.iter().enumerate().filter(|(_, note)| note.is_pinned);
    for (index, _) in pinned.chain(FindingRank::ALL.into_iter().flat_map(of_rank)) {
        let size = count_terminal_lines(&texts[index]);
        if size <= lines_left {
            is_chosen[index] = true;
            lines_left -= size;
        }
    }
    // Always show at least one note, even if it is longer than a screen.
    if is_chosen.iter().all(|one| !one)
        && let Some(first) = is_chosen.first_mut()
    {
        *first = true;
    }
    let below =
        texts.iter().zip(&is_chosen).filter(|(_, chosen)| **chosen).map(|(text, _)| text.as_str());
    (below.collect(), is_chosen.iter().filter(|chosen| !**chosen).count())
}

/// Counts the lines that a string takes up in a terminal of 80 columns.
fn count_terminal_lines(text: &str) -> usize {
    text.lines().map(|line| line.chars().count().div_ceil(table::TERMINAL_WIDTH).max(1)).sum()
}

/// Explains the column headers.
const LEGEND: &str = "Rates cover all planned trials, with 95% confidence intervals. Steps, tokens\n\
                        and wall are means without faults. Paid includes retries. -: unknown.\n";

/// Formats each arm's results.
fn results_table(first_header: &str, arms: &[&ArmReport]) -> String {
    let headers = [first_header, "resolved", "rate\n95%", "F2P passed", "at a limit"];
    let rows = arms.iter().map(|arm| {
        let clean = match arm.resolved_clean == arm.resolved {
            true => String::new(),
            false => format!("\n{} clean", arm.resolved_clean),
        };
        vec![
            arm.name.clone(),
            format!("{}/{}{clean}", arm.resolved, arm.trials),
            format!(
                "{}{}",
                format_resolved_rate(arm),
                format_interval(arm.intervals.resolved_rate)
            ),
            format!(
                "{}{}",
                format_percent(arm.passed_rate),
                format_interval(arm.intervals.passed_rate)
            ),
            format_limit_fraction(arm),
        ]
    });
    format_table(&headers, rows, |column| column > 0)
}

/// Formats the fraction of trials that ended at one of their own limits, by kind of limit.
fn format_limit_fraction(arm: &ArmReport) -> String {
    let kinds: Vec<String> = arm.limit_bound.keys().map(|kind| kind.replace('_', " ")).collect();
    let share = format_percent(arm.limit_bound.values().sum());
    if kinds.is_empty() { share } else { format!("{share}\n{}", kinds.join("\n")) }
}

/// Formats each arm's usage.
fn usage_table(arms: &[&ArmReport]) -> String {
    let headers =
        ["arm", "steps", "tokens\nin", "tokens\nout", "paid\ntotal", "paid each\nresolved", "wall"];
    let rows = arms.iter().map(|arm| {
        let about = if arm.usage_estimated { "~" } else { "" };
        let paid = arm.paid;
        let or = |known: bool, text: String| if known { text } else { "-".to_owned() };
        let tokens = |count: f64| {
            or(arm.are_token_counts_known(), format!("{about}{}", abbreviate_count(count)))
        };
        let paid_for = arm.are_token_counts_known() || paid.cost_usd > 0.0;
        let each = arm.per_resolved.and_then(|each| each.cost_usd);
        vec![
            arm.name.clone(),
            or(arm.are_steps_known(), format!("{:.1}", arm.steps.mean)),
            tokens(arm.tokens.input.mean),
            tokens(arm.tokens.output.mean),
            match paid.cost_known {
                true if paid.cost_usd >= 100.0 => format!("{about}${:.2}", paid.cost_usd),
                true => or(paid_for, format!("{about}${:.4}", paid.cost_usd)),
                false => "unknown".into(),
            },
            each.map_or_else(
                || "-".to_owned(),
                |cost| format!("{about}{}", format_cost_with_interval(cost)),
            ),
            or(arm.are_durations_known(), format!("{:.1} s", arm.wall_seconds.mean)),
        ]
    });
    format_table(&headers, rows, |column| column > 0)
}

/// Formats dollars, with the interval on the next line.
fn format_cost_with_interval(cost: Ratio) -> String {
    let value = format_dollars(cost.value);
    let bare = |end: f64| format_dollars(end).trim_start_matches('$').to_owned();
    match (cost.lower, cost.upper) {
        (None, _) => value,
        // The data gives no upper bound.
        (Some(lower), None) => format!("{value}\n{} - ∞", bare(lower)),
        (Some(lower), Some(upper)) => format!("{value}\n{} - {}", bare(lower), bare(upper)),
    }
}

/// Formats how trials ended. Empty if all of them ended with a submission.
fn endings_table(report: &Report) -> String {
    let names: BTreeSet<&String> = report.arms.iter().flat_map(|arm| arm.outcomes.keys()).collect();
    let unfinished = report.arms.iter().any(|arm| arm.unfinished > 0);
    if !unfinished && names.iter().all(|name| *name == "submitted") {
        return String::new();
    }
    let mut headers = vec!["ended"];
    headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
    let row = |name: &str, count: &dyn Fn(&ArmReport) -> u64| -> Vec<String> {
        let cells = report.arms.iter().map(|arm| count(arm).to_string());
        std::iter::once(ending_words(name)).chain(cells).collect()
    };
    let mut rows: Vec<Vec<String>> = names
        .into_iter()
        .map(|name| row(name, &|arm| arm.outcomes.get(name).copied().unwrap_or(0)))
        .collect();
    if unfinished {
        rows.push(row("not ended", &|arm| arm.unfinished));
    }
    format!("\n{}", table::format_table_by_arms(&headers, rows))
}

/// Formats each arm's averages per step, which show how differently agents do the same work.
fn per_step_table(arms: &[&ArmReport]) -> String {
    if arms.iter().all(|arm| arm.per_step.is_none()) {
        return String::new();
    }
    let headers = [
        "arm",
        "per step:\ntokens in",
        "\nout",
        "\ntool calls",
        "per trial:\ntool calls",
        "steps\nmax",
        "tokens per\nresolved",
    ];
    let known =
        |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let rows = arms.iter().map(|arm| {
        let about = if arm.usage_estimated { "~" } else { "" };
        let tokens = |value: Option<f64>| {
            value
                .filter(|_| arm.are_token_counts_known())
                .map_or_else(|| "-".into(), |value| format!("{about}{}", abbreviate_count(value)))
        };
        let step = arm.per_step;
        vec![
            arm.name.clone(),
            tokens(step.map(|step| step.input)),
            tokens(step.map(|step| step.output)),
            known(step.and_then(|step| step.tool_calls)),
            known(arm.tool_calls.map(|calls| calls.mean)),
            if arm.are_steps_known() { arm.steps.max.to_string() } else { "-".to_owned() },
            tokens(arm.per_resolved.and_then(|each| each.tokens).map(|ratio| ratio.value)),
        ]
    });
    format!("\n{}", format_table(&headers, rows, |column| column > 0))
}

fn tasks_table(report: &Report) -> String {
    let arms: Vec<&ArmReport> = report.arms.iter().collect();
    let mut headers = vec!["task"];
    headers.extend(arms.iter().map(|arm| arm.name.as_str()));
    let rows = build_grid(report, &arms).rows.into_iter().map(|row| {
        let cells = row.cells.iter().map(|trials| cell_text(trials));
        std::iter::once(row.task.to_string()).chain(cells).collect()
    });
    format!("\n{}", table::format_table_by_arms(&headers, rows.collect()))
}

/// Formats each arm's failed tests by exception, most frequent first. Empty if no log names an
/// exception.
fn exceptions_table(report: &Report) -> String {
    let rows = exception_rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let mut headers = vec!["failed tests"];
    headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
    let rows = rows.into_iter().map(|(class, counts)| {
        let cells =
            counts.into_iter().map(|count| count.map_or_else(String::new, format_exception_count));
        std::iter::once(class.to_owned()).chain(cells).collect()
    });
    format!("\n{}", table::format_table_by_arms(&headers, rows.collect()))
}

/// Formats how many tests failed with an exception, and in how many trials: `5 in 2 trials`. If a
/// test file cannot be imported, its tests count once, so the number of tests alone would mislead.
pub(crate) fn format_exception_count(count: ExceptionCount) -> String {
    format!("{} in {}", count.tests, count_with_noun(count.trials, "trial"))
}

/// Returns every exception class with its count in each arm, most frequent first.
pub fn exception_rows(report: &Report) -> Vec<(&str, Vec<Option<ExceptionCount>>)> {
    let classes: BTreeSet<&str> =
        report.arms.iter().flat_map(|arm| arm.exceptions.keys()).map(String::as_str).collect();
    let counts_of = |class: &str| -> Vec<Option<ExceptionCount>> {
        report.arms.iter().map(|arm| arm.exceptions.get(class).copied()).collect()
    };
    let mut rows: Vec<_> = classes.into_iter().map(|class| (class, counts_of(class))).collect();
    let tests = |counts: &[Option<ExceptionCount>]| {
        counts.iter().flatten().map(|count| count.tests).sum::<u64>()
    };
    // The sort is stable, so equally frequent classes keep their alphabetical order.
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(tests(counts)));
    rows
}

/// Formats a table for each selected kind of group that any arm has, and a table of pass@k.
fn group_tables_text(report: &Report, show_all: bool) -> String {
    let mut out = String::new();
    let selected = if show_all { GroupSelection::All } else { GroupSelection::Informative };
    for GroupTable { kind, rows } in group_tables(report, selected) {
        let heading = kind.replace('_', " ");
        let mut headers = vec![heading.as_str()];
        headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
        let rows = rows.into_iter().map(|(name, cells)| {
            let cells = cells.into_iter().map(|group| {
                group.map_or_else(String::new, |group| {
                    let (rate, passed) =
                        (format_percent(group.resolved_rate), format_percent(group.passed_rate));
                    format!("{}/{} {rate} (F2P {passed})", group.resolved, group.trials)
                })
            });
            [name.to_owned()].into_iter().chain(cells).collect()
        });
        out.push('\n');
        out.push_str(&table::format_table_by_arms(&headers, rows.collect()));
    }
    let most = report.arms.iter().flat_map(|arm| arm.pass_at_k.keys()).max();
    if let Some(&most) = most {
        let ks = displayed_ks(most);
        let headers: Vec<String> = ks.iter().map(|k| format!("pass@{k}")).collect();
        let headers: Vec<&str> =
            [""].into_iter().chain(headers.iter().map(String::as_str)).collect();
        let rows = report.arms.iter().map(|arm| {
            let of =
                |k| arm.pass_at_k.get(k).map_or_else(String::new, |share| format_percent(*share));
            [arm.name.clone()].into_iter().chain(ks.iter().map(of)).collect()
        });
        out.push('\n');
        out.push_str(&format_table(&headers, rows, |column| column > 0));
    }
    out
}

/// Formats the resolved rate, or its bounds if verdicts are missing.
fn format_resolved_rate(arm: &ArmReport) -> String {
    if arm.complete {
        format_percent(arm.resolved_rate)
    } else {
        let bounds = arm.resolved_bounds;
        format!("{} - {}", format_percent(bounds.lower), format_percent(bounds.upper))
    }
}

#[cfg(test)]
mod tests {
    use super::{FindingNote, FindingRank, count_terminal_lines, fit_notes};

    #[test]
    fn fit_notes_prefers_missing_results() {
        let note =
            |rank, text: &str| FindingNote { rank, is_pinned: false, lines: vec![text.to_owned()] };
        let notes = [
            note(FindingRank::Informational, "a"),
            note(FindingRank::Doubtful, "b"),
            note(FindingRank::Informational, "c"),
            note(FindingRank::Missing, "d"),
        ];
        assert_eq!(fit_notes(&notes, 4), ("a\nb\nc\nd\n".to_owned(), 0));
        assert_eq!(fit_notes(&notes, 3), ("a\nb\nd\n".to_owned(), 1));
        assert_eq!(fit_notes(&notes, 1), ("d\n".to_owned(), 3));
        let pinned = FindingNote { is_pinned: true, ..note(FindingRank::Informational, "e") };
        let with_pinned: Vec<FindingNote> = notes.into_iter().chain([pinned]).collect();
        assert_eq!(fit_notes(&with_pinned, 2), ("d\ne\n".to_owned(), 3));
        assert_eq!(fit_notes(&[], 0), (String::new(), 0));
        assert_eq!(count_terminal_lines(&format!("{}\n\nb\n", "x".repeat(81))), 4);
    }
}
