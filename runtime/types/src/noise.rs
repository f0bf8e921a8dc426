//! The effect of limits and waits on a trial. Limits and waits change the trial's score but say
//! nothing about the model.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ShippedTable;

static POLICY: ShippedTable<NoisePolicy> =
    ShippedTable::new("tables/noise.toml", include_str!("../../../configs/tables/noise.toml"));

/// `configs/tables/noise.toml`: thresholds for counting a limit as reached, and for warnings in reports.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoisePolicy {
    /// A report warns if a limit ended or affected more than this fraction of an arm's failures.
    pub failures_at_a_limit: f64,
    /// A report warns if the scaffold itself ended more than this fraction of the graded trials.
    pub scaffold_failures: f64,
    /// Memory counts as at its limit if the peak is within this fraction of the limit.
    pub memory_within: f64,
    /// CPUs count as limited only if they were throttled in at least this fraction of the periods
    /// in which something ran.
    pub throttled_share: f64,
    /// CPUs count as limited only if they were throttled for at least this many seconds in total.
    pub throttled_seconds: f64,
}

impl NoisePolicy {
    /// Returns the built-in policy.
    ///
    /// # Errors
    /// Fails if the table is invalid. The error starts with the table's file name.
    pub fn shipped() -> Result<&'static Self, String> {
        POLICY.get()
    }
}

/// A sandbox limit that a trial can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLimit {
    /// `sandbox.memory_mb`.
    Memory,
    /// `sandbox.cpus`.
    Cpus,
    /// `sandbox.processes`.
    Processes,
    /// `sandbox.disk_mb`.
    Disk,
    /// `budget.command_seconds` and `timeouts.command_seconds`: a command was killed at this limit.
    CommandSeconds,
}

impl fmt::Display for SandboxLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Cpus => "cpus",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::CommandSeconds => "command_seconds",
        })
    }
}

/// Resource counters of one sandbox. Counters that the back end does not report are absent, never
/// zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SandboxCounts {
    /// Memory counters. Absent if none is known.
    #[serde(default, skip_serializing_if = "MemoryCounts::is_unknown")]
    pub memory: MemoryCounts,
    /// CPU counters. Absent if none is known.
    #[serde(default, skip_serializing_if = "CpuCounts::is_unknown")]
    pub cpu: CpuCounts,
    /// Number of processes that could not start because of the process limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_refused: Option<u64>,
    /// Number of writes through the sandbox agent that failed for lack of space. Failed writes by
    /// commands are not counted, because only the commands see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_refused: Option<u64>,
    /// Number of commands started by the runtime that were killed at their time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_timed_out: Option<u64>,
    /// Seconds that the trial waited for a slot to create the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_seconds: Option<f64>,
}

/// Memory counters, including page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// The kernel's limit in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The peak usage since the sandbox was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// How often usage reached the limit and memory had to be reclaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<u64>,
    /// Number of processes that the kernel killed because of the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Seconds in which at least one process was stalled by lack of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_seconds: Option<f64>,
}

impl MemoryCounts {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// CPU quota counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuCounts {
    /// The kernel's quota, in CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// CPU time used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Number of quota periods in which something ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Number of quota periods in which the quota was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Seconds for which the quota was used up, counted separately for each CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
}

impl CpuCounts {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fraction of periods with activity in which the quota was used up, or `None` if
    /// the counters are unknown or nothing ran.
    pub fn throttled_share(&self) -> Option<f64> {
        let periods = self.periods.filter(|periods| *periods > 0)?;
        Some(self.throttled_periods? as f64 / periods as f64)
    }
}

impl SandboxCounts {
    /// Returns the difference from an earlier count of the same sandbox. The limits and the memory
    /// peak are kept, because a peak cannot be subtracted.
    #[must_use]
    pub fn counts_since(mut self, earlier: &Self) -> Self {
        let less = |now: &mut Option<u64>, then: Option<u64>| {
            *now = now.map(|now| now.saturating_sub(then.unwrap_or(0)));
        };
        let shorter = |now: &mut Option<f64>, then: Option<f64>| {
            *now = now.map(|now| (now - then.unwrap_or(0.0)).max(0.0));
        };
        less(&mut self.memory.at_limit, earlier.memory.at_limit);
        less(&mut self.memory.oom_kills, earlier.memory.oom_kills);
        shorter(&mut self.memory.stalled_seconds, earlier.memory.stalled_seconds);
        shorter(&mut self.cpu.seconds, earlier.cpu.seconds);
        less(&mut self.cpu.periods, earlier.cpu.periods);
        less(&mut self.cpu.throttled_periods, earlier.cpu.throttled_periods);
        shorter(&mut self.cpu.throttled_seconds, earlier.cpu.throttled_seconds);
        less(&mut self.processes_refused, earlier.processes_refused);
        less(&mut self.disk_refused, earlier.disk_refused);
        less(&mut self.commands_timed_out, earlier.commands_timed_out);
        self
    }

    /// Returns the limits that were reached.
    pub fn reached_limits(&self, policy: &NoisePolicy) -> Vec<SandboxLimit> {
        let some = |count: Option<u64>| count.is_some_and(|count| count > 0);
        let near = match (self.memory.peak_bytes, self.memory.limit_bytes) {
            (Some(peak), Some(limit)) => peak as f64 >= limit as f64 * (1.0 - policy.memory_within),
            _ => false,
        };
        let throttled =
            self.cpu.throttled_share().is_some_and(|share| share >= policy.throttled_share)
                && self.cpu.throttled_seconds.is_some_and(|time| time >= policy.throttled_seconds);
        [
            (SandboxLimit::Memory, some(self.memory.oom_kills) || near),
            (SandboxLimit::Cpus, throttled),
            (SandboxLimit::Processes, some(self.processes_refused)),
            (SandboxLimit::Disk, some(self.disk_refused)),
            (SandboxLimit::CommandSeconds, some(self.commands_timed_out)),
        ]
        .into_iter()
        .filter_map(|(limit, touched)| touched.then_some(limit))
        .collect()
    }
}

/// Seconds that a trial's requests waited before they were sent. Concurrent waits count separately,
/// unlike in the outcome's `waited_seconds`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestWaits {
    /// Waits for shared limits.
    pub shared_limits: f64,
    /// Waits for the endpoint's limits on requests and tokens.
    pub rate_limits: f64,
    /// Waits after failed attempts.
    pub retries: f64,
}

/// The `noise` object of `outcome.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Counters of the agent's sandbox, from the agent's start to the last reading.
    pub sandbox: SandboxCounts,
    /// Sandbox limits that the trial reached (`configs/tables/noise.toml`).
    pub touched: Vec<SandboxLimit>,
    /// Waits of model requests. Absent for a trial that calls no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<RequestWaits>,
    /// The step after which an interrupted trial continued in another sandbox. The counters of the
    /// earlier sandbox are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_step: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reached_limits_are_those_at_their_threshold() {
        let policy = NoisePolicy::shipped().unwrap();
        let memory = |peak_bytes, oom_kills| SandboxCounts {
            memory: MemoryCounts {
                limit_bytes: Some(1000),
                peak_bytes: Some(peak_bytes),
                oom_kills,
                ..MemoryCounts::default()
            },
            ..SandboxCounts::default()
        };
        assert_eq!(memory(980, Some(0)).reached_limits(policy), []);
        assert_eq!(memory(990, None).reached_limits(policy), [SandboxLimit::Memory]);
        assert_eq!(memory(10, Some(1)).reached_limits(policy), [SandboxLimit::Memory]);
        let cpus = |throttled_periods, seconds| SandboxCounts {
            cpu: CpuCounts {
                periods: Some(100),
                throttled_periods: Some(throttled_periods),
                throttled_seconds: Some(seconds),
                ..CpuCounts::default()
            },
            ..SandboxCounts::default()
        };
        assert_eq!(cpus(90, 0.5).reached_limits(policy), []);
        assert_eq!(cpus(10, 5.0).reached_limits(policy), []);
        assert_eq!(cpus(90, 5.0).reached_limits(policy), [SandboxLimit::Cpus]);
        assert_eq!(SandboxCounts::default().reached_limits(policy), []);
    }

    #[test]
    fn counts_since_subtracts_earlier_counts_but_not_the_peak() {
        let at = |kills, peak_bytes| SandboxCounts {
            memory: MemoryCounts {
                oom_kills: kills,
                peak_bytes: Some(peak_bytes),
                ..MemoryCounts::default()
            },
            ..SandboxCounts::default()
        };
        let since = at(Some(3), 700).counts_since(&at(Some(1), 500));
        assert_eq!(since, at(Some(2), 700));
        assert_eq!(
            at(None, 1).counts_since(&at(Some(1), 1)).memory.oom_kills,
            None,
            "absent stays absent"
        );
    }

    #[test]
    fn unknown_counters_are_not_serialized() {
        let text = serde_json::to_string(&Noise::default()).unwrap();
        assert_eq!(text, r#"{"sandbox":{},"touched":[]}"#);
        assert_eq!(serde_json::from_str::<Noise>(&text).unwrap(), Noise::default());
    }
}
