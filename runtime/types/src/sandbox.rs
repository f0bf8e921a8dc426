//! Sandbox settings: the back end, resources, the leak check and the network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MAX_CPUS, MAX_SIZE_MB, MIN_CPUS, MIN_MEMORY_MB};

/// The sandbox back ends.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// Uses this machine's namespaces and cgroups, without a daemon.
    Native,
    /// Uses containers in a Docker engine.
    Docker,
}

impl std::fmt::Display for SandboxKind {
    /// Writes the name used in configurations.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Docker => "docker",
        })
    }
}

/// The table `[sandbox]` of a configuration. It is a factor of the arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSpec {
    /// The back end.
    #[schemars(example = SandboxKind::Native)]
    pub kind: SandboxKind,
    /// Number of CPUs, enforced as a quota.
    #[schemars(range(min = MIN_CPUS, max = MAX_CPUS))]
    #[schemars(example = 1.0)]
    pub cpus: f64,
    /// Memory in MiB. An interpreter needs at least 32.
    #[schemars(range(min = MIN_MEMORY_MB, max = MAX_SIZE_MB))]
    #[schemars(example = 2048)]
    pub memory_mb: u64,
    /// Maximum number of processes and threads, including the sandbox agent.
    #[schemars(range(min = 2, max = 4_194_304))]
    #[schemars(example = 512)]
    pub processes: u64,
    /// Maximum number of MiB that the sandbox may write.
    #[schemars(range(min = 1, max = MAX_SIZE_MB))]
    #[schemars(example = 1024)]
    pub disk_mb: u64,
    /// The time at which each command starts, for the agent and the tests (`docs/reference/clock.md`). This
    /// key overrides the task's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2024-05-01T00:00:00Z")]
    pub clock: Option<String>,
}

impl Default for SandboxSpec {
    fn default() -> Self {
        Self {
            kind: SandboxKind::Native,
            cpus: 1.0,
            memory_mb: 2048,
            processes: 512,
            disk_mb: 1024,
            clock: None,
        }
    }
}

/// `[leak_check]`: a factor of the arm, because the agent cannot use files that the leak check
/// removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeakCheckSpec {
    /// What to do if copies of the hidden code are found in a sandbox.
    #[schemars(example = OnFinding::Remove)]
    pub on_finding: OnFinding,
}

/// What happens if copies of the hidden code are found in a sandbox. The work directory's own
/// history, caches and bytecode are always removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFinding {
    /// Do not run the trial, which ends in an infrastructure fault that names the location.
    #[default]
    Refuse,
    /// Remove the copies from the sandbox; if one cannot be removed, do not run the trial.
    Remove,
}

/// `[network]`: a factor of the arm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// What the sandbox can reach (`docs/reference/egress.md`).
    #[schemars(example = NetworkMode::Allow)]
    pub mode: NetworkMode,
    /// URL patterns that are allowed in mode `allow`.
    #[schemars(extend("x-form" = "allow"))]
    #[schemars(example = vec!["https://pypi.org/**"])]
    pub allow: Vec<String>,
    /// URL patterns that are denied in every mode. URLs that the task blocks are always denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-form" = "deny"))]
    #[schemars(example = vec!["https://pypi.org/**"])]
    pub deny: Vec<String>,
    /// `ADDRESS:PORT` or `NAME=ADDRESS:PORT`: allowed addresses outside the public internet, such
    /// as your own mirror. With a name, only that name is allowed, and the proxy does not look it
    /// up in DNS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-form" = "private"))]
    #[schemars(example = vec!["mirror.test=127.0.0.1:8443"])]
    pub private: Vec<String>,
    /// Allow requests that the patterns would deny, and record them as `audited`. URLs that the task blocks and private
    /// addresses stay denied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub audit: bool,
    /// PEM certificates to trust in addition to the host's, such as those of your own mirror. The path is not a factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"mirror.pem")]
    pub ca_file: Option<std::path::PathBuf>,
}

/// What the egress proxy allows. URLs that the task blocks are denied in every mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// No network, and no proxy.
    #[default]
    Closed,
    /// Only URLs that match a pattern in `allow`.
    Allow,
    /// All URLs except those that match a pattern in `deny`.
    OpenExcept,
}
