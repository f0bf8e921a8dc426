//! The report for a terminal.

use std::{collections::BTreeSet, fmt::Write as _};

use proctor_types::{TaskId, plural};

use crate::{
    ArmReport, ExceptionCount, GroupTable, Groups, Report, TaskReport, group_tables,
    lines::wrapped,
    notes::notes,
    single,
    spread::telling_ks,
    table::{self, table},
};

/// The arms' results, what they used, tasks by arms, and then, separately, what is missing, broken
/// or suspect. If a verdict is missing, the first line says so. Tables fit 80 columns. Plain text
/// without colours; ends in a newline.
pub fn text(report: &Report, shown: Groups) -> String {
    if report.arms.is_empty() {
        return "No trials.\n".into();
    }
    let mut out = String::new();
    if !report.complete() {
        let sum = |of: fn(&ArmReport) -> u64| report.arms.iter().map(of).sum::<u64>();
        let (graded, trials) = (sum(|arm| arm.graded), sum(|arm| arm.trials));
        let have = if trials == 1 { "has" } else { "have" };
        let trials = plural(trials, "trial");
        let _ = writeln!(out, "incomplete: {graded} of {trials} {have} a verdict");
    }
    out.push_str(&results(report));
    out.push_str(&usage(report));
    out.push_str(&per_step(report));
    out.push_str(MEANINGS);
    out.push('\n');
    out.push_str(&tasks(report));
    out.push_str(&single::tables(report));
    out.push_str(&exceptions(report));
    out.push_str(&groups(report, shown));
    let mut below = String::new();
    notes(report, &mut below);
    for remark in &report.remarks {
        let _ = writeln!(below, "{remark}");
    }
    out.push_str(&wrapped(&below));
    out
}

/// Explains the column headers.
const MEANINGS: &str = "resolved, rate, F2P passed: of all trials, with 95 % intervals. Means \
                        exclude\ninfrastructure faults. Totals include retries. -: unknown.\n";

/// Each arm's results, and how its trials ended.
fn results(report: &Report) -> String {
    let headers = ["arm", "resolved", "rate\n95 %", "F2P passed", "ended"];
    let rows = report.arms.iter().map(|arm| {
        vec![
            arm.name.clone(),
            format!("{}/{}", arm.resolved, arm.trials),
            format!("{}{}", rate(arm), range(arm.intervals.resolved_rate)),
            format!("{}{}", percent(arm.passed_rate), range(arm.intervals.passed_rate)),
            outcomes(arm),
        ]
    });
    // The names at both edges are aligned left, the numbers between them right.
    table(&headers, rows, |column| (1..4).contains(&column))
}

/// What each arm used.
fn usage(report: &Report) -> String {
    let headers = [
        "arm",
        "steps\nmean",
        "steps\nmax",
        "tokens in\nmean",
        "out\nmean",
        "paid\ntotal",
        "wall\nmean",
    ];
    let rows = report.arms.iter().map(|arm| {
        let about = if arm.usage_estimated { "~" } else { "" };
        let paid = arm.paid;
        let or = |known: bool, text: String| if known { text } else { "-".to_owned() };
        let tokens = |count: f64| or(arm.has_tokens(), format!("{about}{}", short(count)));
        let paid_for = arm.has_tokens() || paid.cost_usd > 0.0;
        vec![
            arm.name.clone(),
            or(arm.has_steps(), format!("{:.1}", arm.steps.mean)),
            or(arm.has_steps(), arm.steps.max.to_string()),
            tokens(arm.tokens.input.mean),
            tokens(arm.tokens.output.mean),
            match paid.cost_known {
                true => or(paid_for, format!("{about}${:.4}", paid.cost_usd)),
                false => "unknown".into(),
            },
            or(arm.is_timed(), format!("{:.1} s", arm.wall_seconds.mean)),
        ]
    });
    table(&headers, rows, |column| column > 0)
}

/// Averages per step of each arm: shows how agents that do the same work differ.
fn per_step(report: &Report) -> String {
    if report.arms.iter().all(|arm| arm.per_step.is_none()) {
        return String::new();
    }
    let headers =
        ["arm", "per step:\ntokens in", "\nout", "\ntool calls", "per trial:\ntool calls"];
    let known =
        |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let rows = report.arms.iter().map(|arm| {
        let about = if arm.usage_estimated { "~" } else { "" };
        let tokens = |value: Option<f64>| {
            value
                .filter(|_| arm.has_tokens())
                .map_or_else(|| "-".into(), |value| format!("{about}{}", short(value)))
        };
        let step = arm.per_step;
        vec![
            arm.name.clone(),
            tokens(step.map(|step| step.input)),
            tokens(step.map(|step| step.output)),
            known(step.and_then(|step| step.tool_calls)),
            known(arm.tool_calls.map(|calls| calls.mean)),
        ]
    });
    table(&headers, rows, |column| column > 0)
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
    table::by_arms(&headers, rows.collect())
}

/// The failed tests of each arm by exception, the most frequent first. Empty if no log names one.
fn exceptions(report: &Report) -> String {
    let rows = exception_rows(report);
    if rows.is_empty() {
        return String::new();
    }
    let mut headers = vec!["failed tests"];
    headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
    let rows = rows.into_iter().map(|(class, counts)| {
        let cells = counts.into_iter().map(|count| {
            count.map_or_else(String::new, |count| {
                format!("{} in {}", count.tests, plural(count.trials, "trial"))
            })
        });
        std::iter::once(class.to_owned()).chain(cells).collect()
    });
    format!("\n{}", table::by_arms(&headers, rows.collect()))
}

/// Every class of exceptions with its count in each arm, the most frequent first.
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
    // A stable sort: equally frequent classes keep their alphabetic order.
    rows.sort_by_key(|(_, counts)| std::cmp::Reverse(tests(counts)));
    rows
}

/// A table for each selected kind of group that any arm has, and one of pass@k.
fn groups(report: &Report, shown: Groups) -> String {
    let mut out = String::new();
    for GroupTable { kind, rows } in group_tables(report, shown) {
        let heading = kind.replace('_', " ");
        let mut headers = vec![heading.as_str()];
        headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
        let rows = rows.into_iter().map(|(name, cells)| {
            let cells = cells.into_iter().map(|group| {
                group.map_or_else(String::new, |group| {
                    let (rate, passed) = (percent(group.resolved_rate), percent(group.passed_rate));
                    format!("{}/{} {rate} (F2P {passed})", group.resolved, group.trials)
                })
            });
            [name.to_owned()].into_iter().chain(cells).collect()
        });
        out.push('\n');
        out.push_str(&table::by_arms(&headers, rows.collect()));
    }
    let most = report.arms.iter().flat_map(|arm| arm.pass_at_k.keys()).max();
    if let Some(&most) = most {
        let ks = telling_ks(most);
        let headers: Vec<String> = ks.iter().map(|k| format!("pass@{k}")).collect();
        let headers: Vec<&str> =
            [""].into_iter().chain(headers.iter().map(String::as_str)).collect();
        let rows = report.arms.iter().map(|arm| {
            let of = |k| arm.pass_at_k.get(k).map_or_else(String::new, |share| percent(*share));
            [arm.name.clone()].into_iter().chain(ks.iter().map(of)).collect()
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
        [one] if one.single_shot.as_ref().is_some_and(|shot| shot.beyond_window) => {
            single::BEYOND.into()
        }
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

/// The rate, or its bounds while they differ.
fn rate(arm: &ArmReport) -> String {
    if arm.complete {
        percent(arm.resolved_rate)
    } else {
        let bounds = arm.resolved_bounds;
        format!("{} - {}", percent(bounds.lower), percent(bounds.upper))
    }
}

/// The interval below a rate.
pub(crate) fn range(interval: Option<[f64; 2]>) -> String {
    interval.map_or_else(String::new, |[lower, upper]| {
        format!("\n{:.1} - {:.1}", lower * 100.0, upper * 100.0)
    })
}

fn outcomes(arm: &ArmReport) -> String {
    let mut parts: Vec<_> = arm
        .outcomes
        .iter()
        .map(|(name, count)| format!("{count} {}", name.replace('_', " ")))
        .collect();
    if arm.unfinished > 0 {
        parts.push(format!("{} not ended", arm.unfinished));
    }
    parts.join("\n")
}

/// `100 %`, `41.7 %`. A rate below 100 % never reads as 100 %, and one above 0 never reads as 0.
pub fn percent(rate: f64) -> String {
    let tenths = (rate * 1000.0).round() / 10.0;
    if rate <= 0.0 || rate >= 1.0 {
        format!("{:.0} %", rate * 100.0)
    } else {
        format!("{:.1} %", tenths.clamp(0.1, 99.9))
    }
}

/// `950`, `12.3k`, `4.56M`.
pub fn short(count: f64) -> String {
    if count >= 1e6 {
        format!("{:.2}M", count / 1e6)
    } else if count >= 1e4 {
        format!("{:.1}k", count / 1e3)
    } else {
        format!("{count:.0}")
    }
}
