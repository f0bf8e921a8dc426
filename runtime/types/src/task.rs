//! A task: one benchmark instance, in Proctor's own format. Every dataset is loaded into it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{TaskId, canonical, sha256_hex};

pub const TASK_SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub schema_version: u32,
    pub id: TaskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    pub statement: String,
    pub environment: Environment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(default = "default_workdir")]
    pub workdir: String,
    /// The patch that takes the feature away before the agent starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// Paths below `workdir`, removed before the agent starts and restored for grading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_urls: Vec<String>,
    pub fail_to_pass: Vec<String>,
    #[serde(default)]
    pub pass_to_pass: Vec<String>,
    pub test_command: Vec<String>,
    /// Applied for grading only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_patch: Option<String>,
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Absent: the mask reversed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gold: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// Present where the agent starts from nothing instead of from a masked source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_scratch: Option<FromScratch>,
    /// Absent for tasks of our own: they have no official policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<Benchmark>,
}

/// The benchmark that a task was loaded from, which names the official grading policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// Of `configs/benchmarks/`: `featurebench`, `fea-bench`, `swe-bench`, ...
    pub name: String,
    /// The version of the benchmark's own harness whose rules count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `lite`, `full`, `verified`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Fields of the row that its grading or its reports need and no other benchmark has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, serde_json::Value>,
}

/// A start without source, as FeatureBench's level 2 has it: the environment holds the whole source,
/// the agent gets an empty `workdir` and writes a package of its own, and for grading that package
/// is installed and the source put back around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromScratch {
    /// All that `workdir` holds when the agent starts, by path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Shell line that installs what the agent wrote, run in `workdir` before the source is back.
    pub install: String,
}

impl Task {
    /// SHA-256 of the canonical JSON.
    pub fn digest(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        sha256_hex(canonical(&value).as_bytes())
    }
}

fn default_workdir() -> String {
    "/testbed".into()
}

/// What a sandbox starts from: exactly one of `image` and `base`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// A Docker image reference, or the path of an OCI or `docker save` archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `host`, or the path of a root file system folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Shell lines, run once with network on the trusted side and cached as a layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
}

/// Where the code comes from; placed at `workdir` before the set-up lines run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Source {
    Pypi {
        pypi: String,
        version: String,
        sha256: String,
    },
    Path {
        path: String,
    },
    Archive {
        archive: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    Git {
        git: String,
        commit: String,
    },
}

/// Seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    pub command_seconds: f64,
    pub grade_seconds: f64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { command_seconds: 120.0, grade_seconds: 600.0 }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
}

/// The file of a test id: what stands before the first `::`.
pub fn file_of(id: &str) -> &str {
    id.split("::").next().unwrap_or(id)
}
