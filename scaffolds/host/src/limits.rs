//! The limits of host scaffolds, read from `configs/tables/host-scaffolds.toml`.

use std::time::Duration;

use proctor_types::{SandboxKind, SandboxSpec, ShippedTable};
use serde::Deserialize;

/// The text of the file, which is a factor of every arm.
pub(crate) const LIMITS_TOML: &str = include_str!("../../../configs/tables/host-scaffolds.toml");

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub line_bytes: usize,
    pub wrong_lines: u32,
    pub errors_in_a_row: u32,
    pub requests_without_answer: u32,
    pub leave_seconds: f64,
    pub output_bytes: usize,
    pub file_bytes: u64,
    pub terminals: usize,
    pub log_bytes: usize,
    pub log_texts: u32,
    pub stderr_bytes: usize,
    sandbox: Resources,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resources {
    cpus: f64,
    memory_mb: u64,
    processes: u64,
    disk_mb: u64,
}

impl Limits {
    /// Returns the built-in limits.
    pub(crate) fn get() -> Result<&'static Self, String> {
        static LIMITS: ShippedTable<Limits> =
            ShippedTable::new("tables/host-scaffolds.toml", LIMITS_TOML);
        LIMITS.get()
    }

    pub(crate) fn exit_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.leave_seconds)
    }

    /// Returns the resource limits of the agent's own sandbox.
    pub(crate) fn sandbox_spec(&self) -> SandboxSpec {
        let Resources { cpus, memory_mb, processes, disk_mb } = self.sandbox;
        SandboxSpec { kind: SandboxKind::Native, cpus, memory_mb, processes, disk_mb, clock: None }
    }
}
