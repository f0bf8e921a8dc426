//! Settings of a run that are no factors of its arms.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FlakePolicy, LEAST_CPUS, LEAST_MEMORY_MB, MOST_CPUS, MOST_MB};

/// `[grading]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GradingFile {
    /// A flake certificate, as `proctor tasks validate --certificate` writes it (`docs/grading.md`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = &"certificate.json")]
    pub certificate: Option<PathBuf>,
    /// What to do about the tests that it calls unreliable.
    #[schemars(example = FlakePolicy::Vote)]
    pub flaky: FlakePolicy,
    /// Whether each patch is graded once more by every test of the repository that passes with gold: the policy `wide`
    /// (`docs/policies.md`). It decides nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub wide: bool,
    /// Whether the verifier of a Harbor task runs in the agent's own container, as Harbor does it. The integrity of such
    /// a verdict is `unverified`. Otherwise it runs in a fresh container with all that the agent changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub harbor_shared: bool,
    /// CPUs that all gradings at once may use; each holds its sandbox's limits. Absent: what the machine
    /// has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = LEAST_CPUS, max = MOST_CPUS), example = 4.0)]
    pub cpus: Option<f64>,
    /// MiB that all gradings at once may use. Absent: what the machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = LEAST_MEMORY_MB, max = MOST_MB), example = 8192)]
    pub memory_mb: Option<u64>,
}

/// `[resume]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeFile {
    /// MiB that a trial may write outside its work directory and still be resumed. A trial that writes more starts
    /// again when it is interrupted.
    #[schemars(range(min = 0, max = MOST_MB), example = 256)]
    pub outside_mb: u64,
    /// MiB of the largest file among them.
    #[schemars(range(min = 0, max = MOST_MB), example = 64)]
    pub outside_file_mb: u64,
}

impl Default for ResumeFile {
    fn default() -> Self {
        Self { outside_mb: 256, outside_file_mb: 64 }
    }
}

impl ResumeFile {
    /// Whether nothing differs from the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `[cache]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheFile {
    /// MiB that unpacked image archives may take on a machine (`docs/native.md`). Those that were used least recently
    /// are removed first, and those that a sandbox uses stay. Absent: half of the cache's file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MOST_MB), example = 204_800)]
    pub images_mb: Option<u64>,
}

impl CacheFile {
    /// Whether nothing differs from the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
