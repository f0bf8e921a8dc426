//! For a spreadsheet.

use std::fmt::Write as _;

use proctor_types::{SandboxLimit, visible_line};

use crate::Report;

/// The columns of [`csv`].
const COLUMNS: &str = "task,arm,arm_name,attempt,outcome,resolved,passed_rate,score_valid,reason,limit,integrity,\
                       steps,cost_usd,paid_usd,wall_seconds,waited_seconds,fault";

/// Those of what limits did to sandboxes, behind them.
const NOISE: &str = "touched,grading_touched,memory_peak_mb,oom_kills,throttled_seconds";

/// Those of trials of one answer, behind the others.
const SINGLE: &str = "applied,whole,shown_precision,shown_recall,shown_recall_all";

/// Of trials that were interrupted, at the end.
const INTERRUPTIONS: &str = "interruptions";

/// Failed tests by the class of their exception, at the very end.
const EXCEPTIONS: &str = "exceptions";

/// One row a trial, in the order of the plan. What is not known is empty.
pub fn csv(report: &Report) -> String {
    // Columns only where they say something: other sheets stay what they were.
    let single = report.tasks.iter().any(|trial| trial.single_shot.is_some());
    let noise = report.tasks.iter().any(|trial| trial.noise.is_some());
    let interrupted = report.tasks.iter().any(|trial| !trial.interruptions.is_none());
    let excepted = report.tasks.iter().any(|trial| !trial.exceptions.is_empty());
    let columns = [
        Some(COLUMNS),
        noise.then_some(NOISE),
        single.then_some(SINGLE),
        interrupted.then_some(INTERRUPTIONS),
        excepted.then_some(EXCEPTIONS),
    ];
    let columns: Vec<&str> = columns.into_iter().flatten().collect();
    let mut out = format!("{}\n", columns.join(","));
    for trial in &report.tasks {
        let name = report.arms.iter().find(|arm| arm.arm == trial.arm);
        let name = name.map_or("", |arm| arm.name.as_str());
        // Writing to a text cannot fail.
        let _ = write!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            field(trial.task.as_str()),
            trial.arm,
            field(name),
            trial.attempt,
            trial.outcome.as_deref().unwrap_or_default(),
            value(trial.resolved),
            value(trial.passed_rate),
            trial.score_valid,
            value(trial.reason),
            value(trial.limit),
            value(trial.integrity.map(|integrity| integrity.to_string())),
            value(trial.steps),
            value(trial.cost_usd),
            value(trial.paid_usd),
            value(trial.wall_seconds),
            value(trial.waited_seconds),
            field(trial.fault.as_deref().unwrap_or_default()),
        );
        if noise {
            let counts = trial.noise.as_ref().map(|noise| noise.sandbox).unwrap_or_default();
            let mebibytes = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
            let _ = write!(
                out,
                ",{},{},{},{},{}",
                words(&trial.touched),
                words(&trial.grading_touched),
                value(counts.memory.peak_bytes.map(mebibytes)),
                value(counts.memory.oom_kills),
                value(counts.cpu.throttled_seconds),
            );
        }
        if single {
            let shot = trial.single_shot.as_ref();
            let answer = shot.and_then(|shot| shot.answer.as_ref());
            let quality = shot.and_then(|shot| shot.context.quality);
            let _ = write!(
                out,
                ",{},{},{},{},{}",
                value(answer.map(|answer| answer.applied)),
                value(answer.map(|answer| answer.whole)),
                value(quality.map(|quality| quality.precision)),
                value(quality.map(|quality| quality.recall)),
                value(quality.map(|quality| quality.recall_all)),
            );
        }
        if interrupted {
            let one = match trial.interruptions.is_none() {
                true => String::new(),
                false => trial.interruptions.to_string(),
            };
            let _ = write!(out, ",{}", field(&one));
        }
        if excepted {
            let counts = trial.exceptions.iter().map(|(class, count)| format!("{class}={count}"));
            let _ = write!(out, ",{}", field(&counts.collect::<Vec<_>>().join(" ")));
        }
        out.push('\n');
    }
    out
}

/// One row a group of an arm, as FEA-Bench's tables by kind of repository and by added functions have it.
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
            // Writing to a text cannot fail.
            let _ = writeln!(
                out,
                "{},{},{kind},{},{},{},{},{},{},{},{}",
                arm.arm,
                field(&arm.name),
                field(name),
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

/// Several words in one field.
fn words<'a>(limits: impl IntoIterator<Item = &'a SandboxLimit>) -> String {
    let words: Vec<String> = limits.into_iter().map(ToString::to_string).collect();
    words.join(" ")
}

fn value(known: Option<impl ToString>) -> String {
    known.map(|value| value.to_string()).unwrap_or_default()
}

/// A field of CSV, on one line. A spreadsheet would run a text that begins like a formula.
pub(crate) fn field(text: &str) -> String {
    let text = visible_line(text);
    let safe =
        if text.trim_start().starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if safe.contains([',', '"', ';']) {
        return format!("\"{}\"", safe.replace('"', "\"\""));
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_is_one_field_and_no_formula() {
        assert_eq!(field("tools/gpt-5.1"), "tools/gpt-5.1");
        assert_eq!(field("a,b"), "\"a,b\"");
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\u{a0}=1"] {
            assert!(field(formula).starts_with('\''), "{formula:?}");
        }
        // What a spreadsheet would skip before a formula is written out.
        for formula in ["\t=1", "\r=1", "\u{200b}=1"] {
            assert!(field(formula).starts_with('\\'), "{formula:?}");
        }
        assert_eq!(field("=\"x\"\n,2"), "\"'=\"\"x\"\"\\n,2\"");
    }
}
