//! What is asked of a sandbox, and what of it was enforced.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    Native,
    Docker,
}

/// `[sandbox]`: a factor of the arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSpec {
    pub kind: SandboxKind,
    /// CPUs, as a quota.
    pub cpus: f64,
    /// MiB.
    pub memory_mb: u64,
    pub processes: u64,
    /// MiB that the sandbox may write.
    pub disk_mb: u64,
}

impl Default for SandboxSpec {
    fn default() -> Self {
        Self {
            kind: SandboxKind::Native,
            cpus: 1.0,
            memory_mb: 2048,
            processes: 512,
            disk_mb: 1024,
        }
    }
}

/// `[network]`: a factor of the arm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPolicy {
    pub mode: NetworkMode,
    /// URL patterns.
    pub allow: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    #[default]
    Closed,
    Allow,
    OpenExcept,
}
