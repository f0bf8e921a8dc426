//! Settings of a run that are not factors of its arms.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FlakePolicy, MAX_CPUS, MAX_SIZE_MB, MIN_CPUS, MIN_MEMORY_MB};

/// `[grading]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GradingSettings {
    /// A flake certificate from `proctor tasks validate --certificate` (`docs/concepts/grading.md`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = &"certificate.json")]
    pub certificate: Option<PathBuf>,
    /// How to treat the tests that the certificate lists as unreliable.
    #[schemars(example = FlakePolicy::Vote)]
    pub flaky: FlakePolicy,
    /// Whether each patch is also graded with every test of the repository that passes with gold:
    /// the policy `wide` (`docs/concepts/policies.md`). The wide policy does not change `resolved`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub wide: bool,
    /// Whether the verifier of a Harbor task runs in the agent's own container, as in Harbor. The
    /// integrity of such a verdict is `unverified`. Otherwise, the verifier runs in a fresh
    /// container with the agent's changes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub harbor_shared: bool,
    /// Total number of CPUs for all grading sandboxes that run at the same time. Each sandbox
    /// counts with its CPU limit. Default: all CPUs of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_CPUS, max = MAX_CPUS), example = 4.0)]
    pub cpus: Option<f64>,
    /// Total memory in MiB for all grading sandboxes that run at the same time. Default: the
    /// machine's memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = MIN_MEMORY_MB, max = MAX_SIZE_MB), example = 8192)]
    pub memory_mb: Option<u64>,
}

/// `[resume]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeSettings {
    /// Maximum MiB that a trial may write outside its work directory and still be resumed. If a
    /// trial that wrote more is interrupted, it starts over.
    #[schemars(range(min = 0, max = MAX_SIZE_MB), example = 256)]
    pub outside_mb: u64,
    /// Maximum size in MiB of a single file outside the work directory. If a trial that wrote a
    /// larger file is interrupted, it starts over.
    #[schemars(range(min = 0, max = MAX_SIZE_MB), example = 64)]
    pub outside_file_mb: u64,
}

impl Default for ResumeSettings {
    fn default() -> Self {
        Self { outside_mb: 256, outside_file_mb: 64 }
    }
}

impl ResumeSettings {
    /// Whether all values are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `[cache]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSettings {
    /// Maximum MiB of unpacked image archives on a machine (`docs/design/native.md`). The least recently used archives are
    /// removed first, except those that a sandbox is using. Default: half of the cache's file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_SIZE_MB), example = 204_800)]
    pub images_mb: Option<u64>,
}

impl CacheSettings {
    /// Whether all values are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
