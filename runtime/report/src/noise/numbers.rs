//! Computes how limits and waits affected one arm's trials.

use std::collections::BTreeMap;

use proctor_types::{Noise, SandboxLimit, Verdict};
use serde::{Deserialize, Serialize};

use crate::{DurationStats, TrialResult, limits::own_limit, rounding::round_to_four_decimals};

/// How limits and waits affected one arm's trials. Covers only trials whose sandbox was measured. A
/// value is absent if no back end reported it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Number of trials whose sandbox was measured.
    pub trials: u64,
    /// The fraction of all planned trials that ended at one of their own limits or hit a limit of
    /// their sandbox.
    pub bound: f64,
    /// The fraction of all planned trials that hit each limit.
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
    /// Waiting times, summed over all trials.
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
    /// Waiting for other sandboxes to be created first.
    pub sandbox: f64,
}

pub(crate) fn trial_noise(trial: &TrialResult) -> Option<&Noise> {
    trial.outcome.as_ref()?.noise.as_deref()
}

impl NoiseReport {
    /// Computes the numbers from an arm's trials. Returns `None` if no trial's sandbox was
    /// measured.
    pub(crate) fn from_trials(trials: &[&TrialResult]) -> Option<Self> {
        let measured_noise: Vec<&Noise> =
            trials.iter().filter_map(|trial| trial_noise(trial)).collect();
        if measured_noise.is_empty() {
            return None;
        }
        let share =
            |count: usize| round_to_four_decimals(count as f64 / trials.len().max(1) as f64);
        let bound = |trial: &&&TrialResult| {
            own_limit(trial).is_some()
                || trial_noise(trial).is_some_and(|one| !one.touched.is_empty())
        };
        let kills: Vec<u64> =
            measured_noise.iter().filter_map(|noise| noise.sandbox.memory.oom_kills).collect();
        let peaks = measured_noise.iter().filter_map(|noise| noise.sandbox.memory.peak_bytes);
        let throttled: Vec<f64> =
            measured_noise.iter().filter_map(|noise| noise.sandbox.cpu.throttled_seconds).collect();
        let sum = |of: fn(&Noise) -> f64| {
            round_to_four_decimals(measured_noise.iter().map(|noise| of(noise)).sum())
        };
        Some(Self {
            trials: measured_noise.len() as u64,
            bound: share(trials.iter().filter(bound).count()),
            touched: count_limits(measured_noise.iter().flat_map(|noise| &noise.touched))
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

/// Counts how often each limit occurs in `limits`.
pub(super) fn count_limits<'a>(
    limits: impl Iterator<Item = &'a SandboxLimit>,
) -> BTreeMap<SandboxLimit, usize> {
    let mut counts = BTreeMap::new();
    for limit in limits {
        *counts.entry(*limit).or_default() += 1;
    }
    counts
}

/// Returns the limits that the sandboxes used for grading hit.
pub(crate) fn limits_reached_in_grading(
    verdict: &Verdict,
) -> impl Iterator<Item = SandboxLimit> + '_ {
    verdict.noise.values().flat_map(|noise| noise.touched.iter().copied())
}
