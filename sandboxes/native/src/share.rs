//! Divides a sandbox's memory between files and processes.

use proctor_sandbox_api::Enforcement;
use proctor_types::SandboxSpec;

/// Maximum size of `/dev/shm` in bytes, the same as in Docker.
const SHM_BYTES: u64 = 64 << 20;

/// Average size of a written file in bytes. The limit on the number of files is derived from it.
/// Source trees have about this average.
const BYTES_PER_FILE: u64 = 8 << 10;

/// The lowest limit on the number of files in a sandbox.
const MIN_FILES: u64 = 4_096;

/// How much a sandbox may write to files that are stored in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryFileLimits {
    pub(crate) disk_bytes: u64,
    pub(crate) inodes: u64,
    pub(crate) shm_bytes: u64,
}

/// Divides the sandbox's memory between processes and files. If memory is limited, written files
/// (each needs about 1.5 KB of kernel memory) and shared memory may use only part of it.
///
/// A program that fills the disk then gets an error. Otherwise, the kernel would kill the program
/// and finally the agent.
pub(crate) fn divide_memory(
    limits: &SandboxSpec,
    memory_is_limited: bool,
    enforcement: &mut Enforcement,
) -> MemoryFileLimits {
    let most = limits.memory_mb * 3 / 4;
    let mut disk_mb = limits.disk_mb;
    let mut shm_bytes = SHM_BYTES;
    if memory_is_limited {
        shm_bytes = shm_bytes.min((limits.memory_mb << 20) / 16);
        if disk_mb > most {
            enforcement.not_enforced.push(format!(
                "written files: {most} MiB instead of {disk_mb}, because they count as memory in a native sandbox",
            ));
            disk_mb = most;
        }
    }
    let disk_bytes = disk_mb << 20;
    MemoryFileLimits { disk_bytes, inodes: (disk_bytes / BYTES_PER_FILE).max(MIN_FILES), shm_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_leaves_memory_for_processes() {
        for memory_mb in [64, 256, 2048, 65_536] {
            let limits = SandboxSpec { memory_mb, disk_mb: 1 << 20, ..SandboxSpec::default() };
            let mut said = Enforcement::default();
            let share = divide_memory(&limits, true, &mut said);
            let kernel = share.inodes * 1_536;
            let used = share.disk_bytes + kernel + share.shm_bytes;
            assert!(used < memory_mb << 20, "{memory_mb}: {share:?}");
            assert_eq!(said.not_enforced.len(), 1);
        }
    }

    #[test]
    fn share_without_memory_limit_keeps_requested_disk() {
        let limits = SandboxSpec { memory_mb: 64, disk_mb: 1024, ..SandboxSpec::default() };
        let mut said = Enforcement::default();
        assert_eq!(divide_memory(&limits, false, &mut said).disk_bytes, 1 << 30);
        assert_eq!(said, Enforcement::default());
    }
}
