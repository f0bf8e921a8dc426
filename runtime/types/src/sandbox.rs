//! What is asked of a sandbox, and what of it was enforced.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    Native,
    Docker,
}

impl std::fmt::Display for SandboxKind {
    /// As a configuration writes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Docker => "docker",
        })
    }
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

/// `[leak_check]`: a factor of the arm, since what it removes the agent does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeakCheckSpec {
    pub on_finding: OnFinding,
}

/// What happens where a setup is found to hold what its task hides. The work directory's own
/// history, caches and bytecode are removed in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFinding {
    /// The trial is not run: an infrastructure fault that names the place.
    #[default]
    Refuse,
    /// What was found is removed from the sandbox; what cannot be is refused.
    Remove,
}

/// `[network]`: a factor of the arm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPolicy {
    pub mode: NetworkMode,
    /// URL patterns of what may be reached in mode `allow`.
    pub allow: Vec<String>,
    /// URL patterns of what may not be reached in any mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// `ADDRESS:PORT` or `NAME=ADDRESS:PORT`: what may be dialled though it is not of the public
    /// internet (an own mirror). With a name, only under that name, which is not looked up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<String>,
    /// Let through, and record, what no pattern allows or a pattern of `deny` refuses. What the
    /// task blocks and private addresses stay denied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub audit: bool,
    /// Certificates (PEM) that are trusted beside the host's own, of an own mirror. A path, so no
    /// factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    #[default]
    Closed,
    Allow,
    OpenExcept,
}
