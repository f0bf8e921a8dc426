//! The report for a terminal.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use proctor_types::{ArmId, Integrity, TaskId};

use crate::{ArmReport, Report, TaskReport};

/// A table of arms, one of tasks by arms, and then, apart, what is missing, broken or suspect.
/// Plain text without colours; ends in a newline.
pub fn text(report: &Report) -> String {
    if report.arms.is_empty() {
        return "No trials.\n".into();
    }
    let mut out = arms(report);
    out.push('\n');
    out.push_str(&tasks(report));
    out.push_str(&groups(report));
    notes(report, &mut out);
    for remark in &report.remarks {
        let _ = writeln!(out, "{remark}");
    }
    out
}

fn arms(report: &Report) -> String {
    let headers = [
        "arm",
        "resolved",
        "rate",
        "F2P passed",
        "steps mean",
        "max",
        "tokens in",
        "out",
        "cost",
        "wall",
        "ended",
    ];
    let rows = report.arms.iter().map(|arm| {
        let about = if arm.usage_estimated { "~" } else { "" };
        vec![
            arm.name.clone(),
            format!("{}/{}", arm.resolved, arm.trials),
            rate(arm),
            percent(arm.passed_rate),
            format!("{:.1}", arm.steps.mean),
            arm.steps.max.to_string(),
            format!("{about}{}", short(arm.tokens.input.mean)),
            format!("{about}{}", short(arm.tokens.output.mean)),
            if arm.cost_known { format!("{about}${:.4}", arm.cost_usd) } else { "?".into() },
            format!("{:.1} s", arm.wall_seconds.mean),
            outcomes(arm),
        ]
    });
    // The names on both edges read from the left, the numbers between them from the right.
    table(&headers, rows, |column| column > 0 && column < headers.len() - 1)
}

fn tasks(report: &Report) -> String {
    let mut names: Vec<&TaskId> = Vec::new();
    for trial in &report.tasks {
        if !names.contains(&&trial.task) {
            names.push(&trial.task);
        }
    }
    let mut headers = vec!["task"];
    headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
    let rows = names.into_iter().map(|task| {
        let cells = report.arms.iter().map(|arm| {
            let of = |trial: &&TaskReport| trial.task == *task && trial.arm == arm.arm;
            cell(&report.tasks.iter().filter(of).collect::<Vec<_>>())
        });
        [task.to_string()].into_iter().chain(cells).collect()
    });
    table(&headers, rows, |_| false)
}

/// A table for each kind of group that any arm has, and one of pass@k.
fn groups(report: &Report) -> String {
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (kind, groups) in report.arms.iter().flat_map(|arm| &arm.groups) {
        kinds.entry(kind).or_default().extend(groups.keys().map(String::as_str));
    }
    let mut out = String::new();
    for (kind, names) in kinds {
        let heading = kind.replace('_', " ");
        let mut headers = vec![heading.as_str()];
        headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
        let rows = names.into_iter().map(|name| {
            let cells = report.arms.iter().map(|arm| {
                let group = arm.groups.get(kind).and_then(|groups| groups.get(name));
                group.map_or_else(String::new, |group| {
                    let (rate, passed) = (percent(group.resolved_rate), percent(group.passed_rate));
                    format!("{}/{} {rate} (F2P {passed})", group.resolved, group.trials)
                })
            });
            [name.to_owned()].into_iter().chain(cells).collect()
        });
        out.push('\n');
        out.push_str(&table(&headers, rows, |_| false));
    }
    let most = report.arms.iter().flat_map(|arm| arm.pass_at_k.keys()).max();
    if let Some(&most) = most {
        let headers: Vec<String> = (1..=most).map(|k| format!("pass@{k}")).collect();
        let headers: Vec<&str> =
            [""].into_iter().chain(headers.iter().map(String::as_str)).collect();
        let rows = report.arms.iter().map(|arm| {
            let of = |k| arm.pass_at_k.get(&k).map_or_else(String::new, |share| percent(*share));
            [arm.name.clone()].into_iter().chain((1..=most).map(of)).collect()
        });
        out.push('\n');
        out.push_str(&table(&headers, rows, |column| column > 0));
    }
    out
}

/// One task under one arm.
fn cell(trials: &[&TaskReport]) -> String {
    match trials {
        [] => String::new(),
        [one] => match (one.resolved, one.passed_rate) {
            (Some(true), _) => "yes".into(),
            (Some(false), rate) => format!("no ({} F2P)", percent(rate.unwrap_or_default())),
            (None, _) if one.fault.is_some() => "fault".into(),
            (None, _) => one.outcome.as_ref().map_or("not ended", |_| "not graded").into(),
        },
        several => {
            let yes = several.iter().filter(|trial| trial.resolved == Some(true)).count();
            let missing = several.iter().filter(|trial| trial.resolved.is_none()).count();
            let open = if missing > 0 { format!(", {missing} open") } else { String::new() };
            format!("{yes}/{}{open}", several.len())
        }
    }
}

fn notes(report: &Report, out: &mut String) {
    let mut note = |text: &str| {
        let _ = writeln!(out, "{text}");
    };
    for arm in report.arms.iter().filter(|arm| !arm.complete) {
        note(&format!(
            "{}: incomplete, {} of {} trials have no verdict; resolved is between {} and {}.",
            arm.name,
            arm.trials - arm.graded,
            arm.trials,
            percent(arm.resolved_bounds.lower),
            percent(arm.resolved_bounds.upper),
        ));
    }
    if report.arms.iter().any(|arm| arm.usage_estimated) {
        note("~: an endpoint gave no usage; tokens and cost are estimates.");
    }
    for arm in report.arms.iter().filter(|arm| arm.side.requests > 0) {
        let side = arm.side;
        let tokens = format!("{} tokens in, {} out", side.input, side.output);
        note(&format!("{}: {} side requests, {tokens}; no steps.", arm.name, side.requests));
    }
    for arm in report.arms.iter().filter(|arm| arm.grace.answers > 0) {
        let grace = arm.grace;
        let tokens =
            format!("{} tokens in, {} out, ${:.4}", grace.input, grace.output, grace.cost_usd);
        let answers = grace.answers;
        note(&format!("{}: {answers} answers after the limit, counted apart: {tokens}.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| arm.waited_seconds.total >= 1.0) {
        let waited = arm.waited_seconds.total;
        note(&format!("{}: waited {waited:.0} s for the endpoint, no working time.", arm.name));
    }
    for arm in report.arms.iter().filter(|arm| !arm.cost_known) {
        let known = arm.cost_usd;
        note(&format!(
            "{}: some answers have no price (${known:.4} is known); set [models.NAME] price.",
            arm.name
        ));
    }
    for arm in report.arms.iter().filter(|arm| arm.malformed_calls > 0) {
        let calls = if arm.malformed_calls == 1 { "call" } else { "calls" };
        note(&format!("{}: {} tool {calls} could not be read.", arm.name, arm.malformed_calls));
    }
    for arm in report.arms.iter().filter(|arm| arm.resolved_clean != arm.resolved) {
        note(&format!(
            "{}: {}/{} resolved, {}/{} ({}) with clean integrity alone.",
            arm.name,
            arm.resolved,
            arm.trials,
            arm.resolved_clean,
            arm.trials,
            percent(arm.resolved_rate_clean),
        ));
    }
    let doubtful = report.tasks.iter().filter_map(|trial| match trial.integrity {
        Some(Integrity::Suspect) => Some((trial, "suspect")),
        Some(Integrity::Contaminated) => Some((trial, "contaminated")),
        Some(Integrity::Clean) | None => None,
    });
    for (trial, word) in doubtful {
        note(&format!(
            "{}: the verdict is {word}; its evidence is in verdict.json.",
            place(report, trial)
        ));
    }
    for trial in report.tasks.iter().filter(|trial| !trial.policies_differ.is_empty()) {
        let said: Vec<String> =
            trial.policies_differ.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        note(&format!("{}: the policies differ. {}.", place(report, trial), said.join("; ")));
    }
    for (trial, why) in report.tasks.iter().filter_map(|trial| Some((trial, trial.why.as_ref()?))) {
        let outcome = trial.outcome.as_deref().unwrap_or_default().replace('_', " ");
        note(&format!("{}: {outcome}: {why}", place(report, trial)));
    }
    let faults: Vec<_> =
        report.tasks.iter().filter_map(|trial| Some((trial, trial.fault.as_ref()?))).collect();
    if !faults.is_empty() {
        note("Infrastructure faults (no failure of an arm):");
    }
    for (trial, fault) in faults {
        note(&format!("  {}: {fault}", place(report, trial)));
    }
}

fn place(report: &Report, trial: &TaskReport) -> String {
    format!("{} / {} / {}", name(report, &trial.arm), trial.task, trial.attempt)
}

fn name<'a>(report: &'a Report, id: &'a ArmId) -> &'a str {
    report.arms.iter().find(|arm| arm.arm == *id).map_or(id.as_str(), |arm| &arm.name)
}

/// The rate, or its bounds while they are apart.
fn rate(arm: &ArmReport) -> String {
    if arm.complete {
        percent(arm.resolved_rate)
    } else {
        let bounds = arm.resolved_bounds;
        format!("{} - {}", percent(bounds.lower), percent(bounds.upper))
    }
}

fn outcomes(arm: &ArmReport) -> String {
    let mut parts: Vec<_> =
        arm.outcomes.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if arm.unfinished > 0 {
        parts.push(format!("{} not ended", arm.unfinished));
    }
    parts.join("\n")
}

/// `100 %`, `41.7 %`. What is not all never reads as all, nor what is something as nothing.
fn percent(rate: f64) -> String {
    let tenths = (rate * 1000.0).round() / 10.0;
    if rate <= 0.0 || rate >= 1.0 {
        format!("{:.0} %", rate * 100.0)
    } else {
        format!("{:.1} %", tenths.clamp(0.1, 99.9))
    }
}

/// `950`, `12.3k`, `4.56M`.
fn short(count: f64) -> String {
    if count >= 1e6 {
        format!("{:.2}M", count / 1e6)
    } else if count >= 1e4 {
        format!("{:.1}k", count / 1e3)
    } else {
        format!("{count:.0}")
    }
}

fn table(
    headers: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    right: impl Fn(usize) -> bool,
) -> String {
    let align = |(column, text): (usize, String)| {
        let side = if right(column) { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(text).set_alignment(side)
    };
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(headers.iter().map(|text| (*text).to_owned()).enumerate().map(align));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(align));
    }
    format!("{}\n", table.trim_fmt())
}
