//! The resources available to all sandboxes together.

use std::{fs, path::Path, thread::available_parallelism};

/// The CPUs and memory that a back end can use for its sandboxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Number of CPUs; fractional if a quota applies.
    pub cpus: f64,
    /// Memory in MiB.
    pub memory_mb: u64,
}

impl Machine {
    /// Returns the number of CPUs that this process may use, and the available memory, at most the
    /// limit of the process's cgroups. If the kernel does not report the available memory, it
    /// counts as unlimited.
    pub fn detect() -> Self {
        let cpus = available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let said = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = parse_available_mb(&said).unwrap_or(u64::from(u32::MAX));
        let memory_mb = Self::memory_limit_mb().map_or(available, |limit| limit.min(available));
        Self { cpus, memory_mb }
    }

    /// Returns this process's cgroup memory limit in MiB. `None` means no limit.
    pub fn memory_limit_mb() -> Option<u64> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        groups
            .lines()
            .filter_map(|line| cgroup_memory_limit_mb(line, Path::new("/sys/fs/cgroup")))
            .min()
    }

    /// Returns all resources of this machine, including those in use.
    pub fn detect_total() -> Self {
        let said = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_mb = find_meminfo_mb(&said, "MemTotal:").unwrap_or(u64::from(u32::MAX));
        Self { memory_mb, ..Self::detect() }
    }

    /// Returns the smaller value of each resource.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { cpus: self.cpus.min(other.cpus), memory_mb: self.memory_mb.min(other.memory_mb) }
    }
}

/// Returns the smallest memory limit of a cgroup and its parents, in MiB. `line` is a line of
/// `/proc/self/cgroup`.
fn cgroup_memory_limit_mb(line: &str, mount: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (root, file) = match controllers {
        "" => (mount.to_owned(), "memory.max"),
        "memory" => (mount.join("memory"), "memory.limit_in_bytes"),
        _ => return None,
    };
    let above = Path::new(path).ancestors().filter_map(|path| path.strip_prefix("/").ok());
    let limit = |path: &Path| {
        // If there is no limit, version 2 has `max`, which is not a number.
        let text = fs::read_to_string(root.join(path).join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    above.filter_map(limit).min().map(|bytes| bytes >> 20)
}

fn parse_available_mb(meminfo: &str) -> Option<u64> {
    find_meminfo_mb(meminfo, "MemAvailable:")
}

fn find_meminfo_mb(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_none_without_a_meminfo_line() {
        let said = "MemTotal:       24000000 kB\nMemAvailable:   2097152 kB\nSwapTotal: 0 kB\n";
        assert_eq!(parse_available_mb(said), Some(2048));
        assert_eq!(parse_available_mb("MemTotal: 1 kB\n"), None);
        let here = Machine::detect();
        assert!(here.cpus >= 1.0 && here.memory_mb > 0, "{here:?}");
    }

    #[test]
    fn memory_limit_is_the_smallest_of_all_parent_groups() {
        let mount = tempfile::tempdir().unwrap();
        let job = mount.path().join("memory/slurm/job_1");
        fs::create_dir_all(job.join("step_batch")).unwrap();
        fs::write(job.join("memory.limit_in_bytes"), "629145600\n").unwrap();
        fs::write(job.join("step_batch/memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        let line = "4:memory:/slurm/job_1/step_batch";
        assert_eq!(cgroup_memory_limit_mb(line, mount.path()), Some(600));
        fs::create_dir_all(mount.path().join("job")).unwrap();
        fs::write(mount.path().join("job/memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_memory_limit_mb("0::/job", mount.path()), None);
        assert_eq!(cgroup_memory_limit_mb("5:pids:/slurm/job_1", mount.path()), None);
    }
}
