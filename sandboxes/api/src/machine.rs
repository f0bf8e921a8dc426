//! The resources of all sandboxes together.

use std::thread::available_parallelism;

/// The CPUs and the memory that a back end has for its sandboxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Processors; a quota may make it a fraction.
    pub cpus: f64,
    /// In MiB.
    pub memory_mb: u64,
}

impl Machine {
    /// This machine: the CPUs that this process may use, and the available memory. If the kernel
    /// does not report memory, it is unlimited.
    pub fn here() -> Self {
        let cpus = available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let said = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self { cpus, memory_mb: available(&said).unwrap_or(u64::from(u32::MAX)) }
    }

    /// All resources of this machine, including those in use.
    pub fn whole() -> Self {
        let said = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_mb = line_of(&said, "MemTotal:").unwrap_or(u64::from(u32::MAX));
        Self { memory_mb, ..Self::here() }
    }

    /// The smaller value of each resource.
    #[must_use]
    pub fn smaller(self, other: Self) -> Self {
        Self { cpus: self.cpus.min(other.cpus), memory_mb: self.memory_mb.min(other.memory_mb) }
    }
}

fn available(meminfo: &str) -> Option<u64> {
    line_of(meminfo, "MemAvailable:")
}

fn line_of(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read_and_a_silent_one_is_no_limit() {
        let said = "MemTotal:       24000000 kB\nMemAvailable:   2097152 kB\nSwapTotal: 0 kB\n";
        assert_eq!(available(said), Some(2048));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        let here = Machine::here();
        assert!(here.cpus >= 1.0 && here.memory_mb > 0, "{here:?}");
    }
}
