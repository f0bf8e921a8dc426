//! The effect of limits and waits on an arm's trials (`docs/noise.md`).

use std::collections::BTreeMap;

use proctor_types::{Noise, SandboxLimit, Verdict, plural};
use serde::{Deserialize, Serialize};

use crate::{
    ArmReport, DurationStats, Report, TaskReport, TrialResult,
    build::round_to_four_decimals,
    limits::{can_cause_failure, own_limit},
    table,
    text::percent,
};

/// Covers the trials whose sandbox was measured. Values that no backend reported are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Number of trials whose sandbox was measured.
    pub trials: u64,
    /// The share of all planned trials that ended at one of their own limits or hit a limit of their sandbox.
    pub bound: f64,
    /// The share of all planned trials that hit each limit.
    pub touched: BTreeMap<String, f64>,
    /// Number of processes that the kernel killed to free memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// The highest memory use of any trial, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_mb: Option<f64>,
    /// Time during which the CPU quota was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<DurationStats>,
    /// Waiting times over all trials.
    pub waits: NoiseWaits,
}

/// Waiting times in seconds, counted separately by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseWaits {
    /// Waiting for capacity under shared limits.
    pub shared_limits: f64,
    /// Waiting for the endpoint's rate limits.
    pub rate_limits: f64,
    /// Waiting after failed attempts.
    pub retries: f64,
    /// Waiting for a turn to create a sandbox.
    pub sandbox: f64,
}

pub(crate) fn trial_noise(trial: &TrialResult) -> Option<&Noise> {
    trial.outcome.as_ref()?.noise.as_deref()
}

impl NoiseReport {
    /// Returns `None` if no trial was measured.
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Option<Self> {
        let seen: Vec<&Noise> = trials.iter().filter_map(|trial| trial_noise(trial)).collect();
        if seen.is_empty() {
            return None;
        }
        let share =
            |count: usize| round_to_four_decimals(count as f64 / trials.len().max(1) as f64);
        let bound = |trial: &&&TrialResult| {
            own_limit(trial).is_some()
                || trial_noise(trial).is_some_and(|one| !one.touched.is_empty())
        };
        let kills: Vec<u64> =
            seen.iter().filter_map(|noise| noise.sandbox.memory.oom_kills).collect();
        let peaks = seen.iter().filter_map(|noise| noise.sandbox.memory.peak_bytes);
        let throttled: Vec<f64> =
            seen.iter().filter_map(|noise| noise.sandbox.cpu.throttled_seconds).collect();
        let sum = |of: fn(&Noise) -> f64| {
            round_to_four_decimals(seen.iter().map(|noise| of(noise)).sum())
        };
        Some(Self {
            trials: seen.len() as u64,
            bound: share(trials.iter().filter(bound).count()),
            touched: count_limits(seen.iter().flat_map(|noise| &noise.touched))
                .into_iter()
                .map(|(limit, count)| (limit.to_string(), share(count)))
                .collect(),
            oom_kills: (!kills.is_empty()).then(|| kills.iter().sum()),
            memory_peak_mb: peaks
                .max()
                .map(|bytes| round_to_four_decimals(bytes as f64 / f64::from(1 << 20))),
            throttled_seconds: (!throttled.is_empty()).then(|| {
                let total: f64 = throttled.iter().sum();
                DurationStats {
                    total: round_to_four_decimals(total),
                    mean: round_to_four_decimals(total / throttled.len() as f64),
                    max: round_to_four_decimals(throttled.iter().copied().fold(0.0, f64::max)),
                }
            }),
            waits: NoiseWaits {
                shared_limits: sum(|noise| noise.waits.unwrap_or_default().shared_limits),
                rate_limits: sum(|noise| noise.waits.unwrap_or_default().rate_limits),
                retries: sum(|noise| noise.waits.unwrap_or_default().retries),
                sandbox: sum(|noise| noise.sandbox.slot_seconds.unwrap_or_default()),
            },
        })
    }
}

/// Formats the share of trials at a limit, shown next to a score: `6.7 %: steps 3.3 %, memory 3.3 %`.
pub(crate) fn format_limit_shares(arm: &ArmReport) -> String {
    let touched = arm.noise.iter().flat_map(|noise| &noise.touched);
    let kinds: Vec<String> = arm
        .limit_bound
        .iter()
        .chain(touched)
        .map(|(kind, share)| format!("{} {}", kind.replace('_', " "), percent(*share)))
        .collect();
    match (&arm.noise, kinds.is_empty()) {
        (None, true) => "-".into(),
        (Some(noise), true) => percent(noise.bound),
        (Some(noise), false) => format!("{}: {}", percent(noise.bound), kinds.join(", ")),
        (None, false) => kinds.join(", "),
    }
}

/// Returns the rows of the noise table: a name, and a cell for each arm. Empty if nothing was measured.
pub fn noise_rows(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    if report.arms.iter().all(|arm| arm.noise.is_none()) {
        return Vec::new();
    }
    let row = |of: fn(&NoiseReport) -> Option<String>| -> Vec<String> {
        let cell = |arm: &ArmReport| arm.noise.as_ref().and_then(of).unwrap_or_else(|| "-".into());
        report.arms.iter().map(cell).collect()
    };
    vec![
        ("trials at a limit", report.arms.iter().map(format_limit_shares).collect()),
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
        return "noise: no sandbox of this run was measured (see docs/noise.md)\n".into();
    }
    let mut headers = vec!["noise"];
    headers.extend(report.arms.iter().map(|arm| arm.name.as_str()));
    let rows =
        rows.into_iter().map(|(name, cells)| [name.to_owned()].into_iter().chain(cells).collect());
    table::format_table_by_arms(&headers, rows.collect())
}

/// Counts how often each limit was hit.
fn count_limits<'a>(
    touched: impl Iterator<Item = &'a SandboxLimit>,
) -> BTreeMap<SandboxLimit, usize> {
    let mut counts = BTreeMap::new();
    for limit in touched {
        *counts.entry(*limit).or_default() += 1;
    }
    counts
}

/// Formats the counts: `2 at memory, 1 at disk`.
fn format_limit_counts<'a>(touched: impl Iterator<Item = &'a SandboxLimit>) -> String {
    let counts = count_limits(touched);
    let kinds = counts.iter().map(|(limit, count)| format!("{count} at {limit}"));
    kinds.collect::<Vec<_>>().join(", ")
}

/// Returns the limits that the sandboxes of a grading hit.
pub(crate) fn limits_reached_in_grading(
    verdict: &Verdict,
) -> impl Iterator<Item = SandboxLimit> + '_ {
    verdict.noise.values().flat_map(|noise| noise.touched.iter().copied())
}

/// Returns a sentence if an arm's gradings hit limits that may have made tests fail.
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
            "{}: {} of {} hit a sandbox limit ({}); compare with higher task `resources`.",
            arm.name,
            plural(touched.len(), "grading"),
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
        format!(" The kernel killed {} to free memory.", plural(kills, "process"))
    });
    Some(format!(
        "{}: {} of {} hit a sandbox limit ({}).{killed}",
        arm.name,
        touched.len(),
        plural(arm.trials, "trial"),
        format_limit_counts(touched.iter().copied().flatten())
    ))
}
