//! Reads the kernel's counters for a cgroup (version 1 or 2). Both back ends use this.

use proctor_types::{CpuCounts, MemoryCounts, SandboxCounts};

/// The files to read, each with its controller. In version 1, the controller determines the
/// directory. A group has only the files that its version and kernel provide.
pub const KERNEL_FILES: [(&str, &str); 13] = [
    ("memory", "memory.max"),
    ("memory", "memory.peak"),
    ("memory", "memory.events"),
    ("memory", "memory.pressure"),
    ("memory", "memory.limit_in_bytes"),
    ("memory", "memory.max_usage_in_bytes"),
    ("memory", "memory.oom_control"),
    ("cpu", "cpu.max"),
    ("cpu", "cpu.stat"),
    ("cpu", "cpu.cfs_quota_us"),
    ("cpu", "cpu.cfs_period_us"),
    ("cpuacct", "cpuacct.usage"),
    ("pids", "pids.events"),
];

/// In version 1, a limit of at least this many bytes means that there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Reads the counters. `read_file` returns a file's content, or `None` if the file does not exist.
pub fn read_kernel_counts(read_file: impl Fn(&str) -> Option<String>) -> SandboxCounts {
    let number = |file: &str| read_file(file)?.trim().parse::<u64>().ok();
    let line = |file: &str, name: &str| find_value(&read_file(file)?, name);
    let micros = |count: u64| count as f64 / 1e6;
    let nanos = |count: u64| count as f64 / 1e9;
    let memory = MemoryCounts {
        limit_bytes: number("memory.max")
            .or_else(|| number("memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT)),
        peak_bytes: number("memory.peak").or_else(|| number("memory.max_usage_in_bytes")),
        // Version 1 has only `memory.failcnt`, which recent kernels leave at 0 (observed with
        // 6.18).
        at_limit: line("memory.events", "max"),
        oom_kills: line("memory.events", "oom_kill")
            .or_else(|| line("memory.oom_control", "oom_kill")),
        stalled_seconds: read_file("memory.pressure").and_then(|text| parse_stalled_seconds(&text)),
    };
    let cpu = CpuCounts {
        limit: parse_cpu_quota(&read_file),
        seconds: line("cpu.stat", "usage_usec")
            .map(micros)
            .or_else(|| number("cpuacct.usage").map(nanos)),
        periods: line("cpu.stat", "nr_periods"),
        throttled_periods: line("cpu.stat", "nr_throttled"),
        throttled_seconds: line("cpu.stat", "throttled_usec")
            .map(micros)
            .or_else(|| line("cpu.stat", "throttled_time").map(nanos)),
    };
    let processes_refused = line("pids.events", "max");
    SandboxCounts { memory, cpu, processes_refused, ..SandboxCounts::default() }
}

/// Returns the number from a line such as `name 12`.
fn find_value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns the total, converted from microseconds to seconds, of a line such as `some avg10=0.00
/// avg60=0.00 avg300=0.00 total=12345`.
fn parse_stalled_seconds(text: &str) -> Option<f64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let total: u64 = some.split("total=").nth(1)?.trim().parse().ok()?;
    Some(total as f64 / 1e6)
}

/// Returns the CPU quota in CPUs. If there is no limit, version 2 has `max` and version 1 has a
/// negative number.
fn parse_cpu_quota(read_file: &impl Fn(&str) -> Option<String>) -> Option<f64> {
    let both = match read_file("cpu.max") {
        Some(text) => text,
        None => format!(
            "{} {}",
            read_file("cpu.cfs_quota_us")?.trim(),
            read_file("cpu.cfs_period_us")?.trim()
        ),
    };
    let (quota, period) = both.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of_files(files: &[(&str, &str)]) -> SandboxCounts {
        read_kernel_counts(|wanted| {
            files.iter().find(|(file, _)| *file == wanted).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn read_kernel_counts_supports_version_2() {
        let counts = counts_of_files(&[
            ("memory.max", "268435456\n"),
            ("memory.peak", "268431360\n"),
            ("memory.events", "low 0\nhigh 0\nmax 41\noom 2\noom_kill 1\noom_group_kill 0\n"),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=7\n",
            ),
            ("cpu.max", "25000 100000\n"),
            (
                "cpu.stat",
                "usage_usec 2500000\nnr_periods 80\nnr_throttled 60\nthrottled_usec 4500000\n",
            ),
            ("pids.events", "max 3\n"),
        ]);
        let memory = MemoryCounts {
            limit_bytes: Some(268_435_456),
            peak_bytes: Some(268_431_360),
            at_limit: Some(41),
            oom_kills: Some(1),
            stalled_seconds: Some(1.5),
        };
        let cpu = CpuCounts {
            limit: Some(0.25),
            seconds: Some(2.5),
            periods: Some(80),
            throttled_periods: Some(60),
            throttled_seconds: Some(4.5),
        };
        let all = SandboxCounts { memory, cpu, processes_refused: Some(3), ..Default::default() };
        assert_eq!(counts, all);
    }

    #[test]
    fn read_kernel_counts_omits_missing_counters_of_version_1() {
        let counts = counts_of_files(&[
            ("memory.limit_in_bytes", "268435456\n"),
            ("memory.max_usage_in_bytes", "1048576\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ("cpu.cfs_quota_us", "50000\n"),
            ("cpu.cfs_period_us", "100000\n"),
            ("cpu.stat", "nr_periods 3\nnr_throttled 1\nthrottled_time 62755903\n"),
            ("cpuacct.usage", "1500000000\n"),
        ]);
        assert_eq!(counts.memory.limit_bytes, Some(268_435_456));
        assert_eq!((counts.memory.oom_kills, counts.memory.at_limit), (Some(2), None));
        assert_eq!((counts.cpu.limit, counts.cpu.seconds), (Some(0.5), Some(1.5)));
        assert_eq!(counts.cpu.throttled_seconds, Some(0.062_755_903));
        assert_eq!(counts.processes_refused, None);
    }

    #[test]
    fn read_kernel_counts_returns_none_without_limits() {
        let counts = counts_of_files(&[
            ("memory.max", "max\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("cpu.max", "max 100000\n"),
        ]);
        assert_eq!(counts, SandboxCounts::default());
    }
}
