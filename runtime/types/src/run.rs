//! A run: the trials of a plan, in one directory.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Arm, Certificate, FlakePolicy, RecordedConfig, Task, TrialId,
    recorded_config::{default_config_version, deserialize_or_default},
};

/// The version of the run directory's format. Increment it also when the version of events or of
/// arm factors changes.
pub const RUN_SCHEMA_VERSION: u32 = 2;

/// The version of the rules that attribute an ending to the model, the scaffold or the
/// infrastructure, and that grade tests. Increment it with each edit to these rules that could
/// change a recorded outcome or verdict.
///
/// 1. `run.json` has no `rules`.
/// 2. Endpoint errors must match `configs/tables/rejections.toml`, a context overflow must be confirmed by
///    Proctor's own token count, and totals and exit statuses of test runs must agree with their
///    results.
pub const RULES_VERSION: u32 = 2;

/// The rules version of a `run.json` without `rules`.
fn default_rules_version() -> u32 {
    1
}

/// `run.json`: everything that `resume`, `grade` and `report` need, and the origin of the results
/// for readers. Prices, jobs, paths and the host are recorded but not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RUN_SCHEMA_VERSION`] when the run was created. Runs of other versions are rejected.
    pub schema_version: u32,
    /// The version of Proctor that created the run.
    pub proctor: String,
    /// [`RULES_VERSION`] when the run was created. A run never mixes two versions.
    #[serde(default = "default_rules_version")]
    pub rules: u32,
    /// When the run was created, in seconds since the Unix epoch.
    pub created: u64,
    /// Number of attempts that each arm makes at each task.
    pub attempts: u32,
    /// Maximum number of concurrent trials.
    pub jobs: usize,
    /// The arms in plan order, which reports keep.
    pub arms: Vec<Arm>,
    /// The tasks in plan order.
    pub tasks: Vec<RunTask>,
    /// [`CONFIG_VERSION`](crate::CONFIG_VERSION) when `config` was written.
    #[serde(default = "default_config_version")]
    pub config_version: u32,
    /// The resolved configuration.
    #[serde(deserialize_with = "deserialize_or_default")]
    pub config: RecordedConfig,
    /// The operating system and architecture of the machine that created the run. For information
    /// only.
    pub host: Value,
    /// SHA-256 of the sandbox agent of this run.
    pub agent: String,
    /// The complete flake certificate that grading uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// How grading treats tests that the certificate lists as unreliable.
    #[serde(default)]
    pub flaky: FlakePolicy,
    /// Which of the configured tasks were selected. Absent if all were selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Combinations of task, arm and attempt that are not part of the run. For example, an imported
    /// run contains only the trials in the imported files.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<TrialId>,
    /// Later changes to the plan, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RunChange>,
}

/// The subset of the configured tasks that `run --tasks GLOB --limit N` selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The glob that task ids must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<String>,
    /// Number of tasks in the sample. The SHA-256 of the seed and the task's id determines the
    /// order of the tasks, so a larger sample contains a smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The seed of the sample.
    pub seed: u64,
    /// Number of configured tasks.
    pub of: u64,
}

/// An extension of a run, or a re-run of some of its trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChange {
    /// When the change was made, in seconds since the Unix epoch.
    pub at: u64,
    /// The version of Proctor that made the change.
    pub proctor: String,
    /// A description of the change.
    pub change: String,
}

/// A planned task, stored in full so that later changes to the dataset do not affect the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    /// The task itself.
    pub task: Task,
    /// SHA-256 of the task's canonical JSON.
    pub digest: String,
    /// The directory that the task's relative paths are resolved against.
    pub base_dir: PathBuf,
    /// SHA-256 of the content of the task's source, if that is a directory or an archive on this
    /// host. If the content changes, the run does not continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Whether the task's verdicts are valid only for the host that produced them (`base: "host"`).
    pub host_bound: bool,
}
