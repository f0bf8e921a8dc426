//! Tables and sentences about limits and waits.

use proctor_types::{SandboxLimit, count_with_noun};

use super::numbers::{NoiseReport, count_limits};
use crate::{
    ArmReport, Report, TaskReport, format::format_percent, limits::can_cause_failure, table,
};

/// Formats the fraction of trials that hit a limit, shown next to a score: `6.7%: steps 3.3%,
/// memory 3.3%`.
fn format_limit_fractions(arm: &ArmReport) -> String {
    let touched = arm.noise.iter().flat_map(|noise| &noise.touched);
    let kinds: Vec<String> = arm
        .limit_bound
        .iter()
        .chain(touched)
        .map(|(kind, share)| format!("{} {}", kind.replace('_', " "), format_percent(*share)))
        .collect();
    match (&arm.noise, kinds.is_empty()) {
        (None, true) => "-".into(),
        (Some(noise), true) => format_percent(noise.bound),
        (Some(noise), false) => format!("{}: {}", format_percent(noise.bound), kinds.join(", ")),
        (None, false) => kinds.join(", "),
    }
}

/// Returns the rows of the noise table: a name, and one cell per arm. Empty if nothing was
/// measured.
pub fn noise_rows(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    if report.arms.iter().all(|arm| arm.noise.is_none()) {
        return Vec::new();
    }
    let row = |of: fn(&NoiseReport) -> Option<String>| -> Vec<String> {
        let cell = |arm: &ArmReport| arm.noise.as_ref().and_then(of).unwrap_or_else(|| "-".into());
        report.arms.iter().map(cell).collect()
    };
    vec![
        ("trials at a limit", report.arms.iter().map(format_limit_fractions).collect()),
        ("memory peak", row(|one| Some(format!("{:.0} MiB", one.memory_peak_mb?)))),
        ("killed for memory", row(|one| one.oom_kills.map(|kills| kills.to_string()))),
        ("throttled, mean", row(|one| Some(seconds(one.throttled_seconds?.mean)))),
        ("waited for shared limits", row(|one| Some(seconds(one.waits.shared_limits)))),
        ("waited for rate limits", row(|one| Some(seconds(one.waits.rate_limits)))),
        ("waited for retries", row(|one| Some(seconds(one.waits.retries)))),
        ("waited for a sandbox", row(|one| Some(seconds(one.waits.sandbox)))),
    ]
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

/// Formats the rows as a table for a terminal.
pub fn noise_text(report: &Report) -> String {
    let rows = noise_rows(report);
    if rows.is_empty() {
        return "noise: no sandbox in this run was measured (see docs/concepts/noise.md)\n".into();
    }
    let mut headers = vec!["noise"];
    headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
    let rows =
        rows.into_iter().map(|(name, cells)| [name.to_owned()].into_iter().chain(cells).collect());
    table::format_table_by_arms(&headers, rows.collect())
}

/// Formats the number of sandboxes that hit each limit: `2 at memory, 1 at disk`.
fn format_limit_counts<'a>(limits: impl Iterator<Item = &'a SandboxLimit>) -> String {
    let counts = count_limits(limits);
    let kinds = counts.iter().map(|(limit, count)| format!("{count} at {limit}"));
    kinds.collect::<Vec<_>>().join(", ")
}

/// Returns a sentence if sandboxes that graded an arm's trials hit limits that may have made tests
/// fail.
pub(crate) fn describe_grading_limits(arm: &ArmReport, trials: &[&TaskReport]) -> Option<String> {
    let touched: Vec<Vec<SandboxLimit>> = trials
        .iter()
        .map(|trial| {
            trial.grading_touched.iter().copied().filter(can_cause_failure).collect::<Vec<_>>()
        })
        .filter(|touched| !touched.is_empty())
        .collect();
    (!touched.is_empty()).then(|| {
        format!(
            "{}: grading hit a sandbox limit in {} of {} ({}); raise the task's `resources` and compare.",
            arm.name,
            count_with_noun(touched.len(), "trial"),
            arm.graded,
            format_limit_counts(touched.iter().flatten())
        )
    })
}

/// Returns a sentence if an arm's trials hit limits of their sandboxes.
pub(crate) fn describe_trial_limits(arm: &ArmReport, trials: &[&TaskReport]) -> Option<String> {
    let touched: Vec<&Vec<SandboxLimit>> =
        trials.iter().map(|trial| &trial.touched).filter(|touched| !touched.is_empty()).collect();
    if touched.is_empty() {
        return None;
    }
    let killed = arm.noise.as_ref().and_then(|noise| noise.oom_kills).filter(|kills| *kills > 0);
    let killed = killed.map_or_else(String::new, |kills| {
        format!(" The kernel killed {} to free memory.", count_with_noun(kills, "process"))
    });
    Some(format!(
        "{}: {} of {} hit a sandbox limit ({}).{killed}",
        arm.name,
        touched.len(),
        count_with_noun(arm.trials, "trial"),
        format_limit_counts(touched.iter().copied().flatten())
    ))
}
