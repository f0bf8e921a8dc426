//! A run: a plan's trials in one directory.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Arm, Certificate, FlakePolicy, RecordedConfig, Task, TrialId,
    recorded_config::{first_config, or_null},
};

/// The format of a run directory: increased also with the version of its events or of its arms'
/// factors.
pub const RUN_SCHEMA: u32 = 2;

/// The version of the rules by which an end is attributed to the model, the scaffold or the
/// infrastructure, and by which tests are graded. Increase it with each change of these rules that
/// could change a recorded outcome or verdict.
///
/// 1. `run.json` names no rules.
/// 2. Endpoint errors are recognized positively (`configs/rejections.toml`), an overflow requires
///    Proctor's own count, and totals and exit statuses of test runs must agree with their results.
pub const RULES: u32 = 2;

/// The rules of a `run.json` that names none.
fn first_rules() -> u32 {
    1
}

/// `run.json`: everything that `resume`, `grade` and `report` need, and the origin of the numbers
/// for readers. Prices, jobs, paths and the host are recorded but not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RUN_SCHEMA`] when the run was made. A run of another version is rejected by name.
    pub schema_version: u32,
    /// The version of Proctor that made the run.
    pub proctor: String,
    /// [`RULES`] when the run was made. A run never mixes two.
    #[serde(default = "first_rules")]
    pub rules: u32,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// Attempts of each arm at each task.
    pub attempts: u32,
    /// Concurrent trials.
    pub jobs: usize,
    /// In plan order, which reports keep.
    pub arms: Vec<Arm>,
    /// In plan order.
    pub tasks: Vec<RunTask>,
    /// [`CONFIG_VERSION`](crate::CONFIG_VERSION) when `config` was written.
    #[serde(default = "first_config")]
    pub config_version: u32,
    /// The resolved configuration.
    #[serde(deserialize_with = "or_null")]
    pub config: RecordedConfig,
    /// The machine that made the run, for readers: operating system and architecture.
    pub host: Value,
    /// SHA-256 of the sandbox agent of this run.
    pub agent: String,
    /// The complete flake certificate that grading uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// How grading treats tests that the certificate lists as unreliable.
    #[serde(default)]
    pub flaky: FlakePolicy,
    /// Which of the configuration's tasks were selected. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Combinations of task, arm and attempt that are not part of the run: an import has the trials
    /// of its files and invents no others.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<TrialId>,
    /// Changes of the plan after it was made, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RunChange>,
}

/// `run --tasks GLOB --limit N`: some of the tasks that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The glob for ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<String>,
    /// How many of these were drawn, by the SHA-256 of seed and id: a larger sample contains the
    /// smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The seed of the sample.
    pub seed: u64,
    /// Number of tasks that the configuration names.
    pub of: u64,
}

/// An extension of a run, or a re-run of some of its trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChange {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// The version of Proctor that made the change.
    pub proctor: String,
    /// The change, for readers.
    pub change: String,
}

/// A task of the plan, complete as planned: later changes of the dataset do not affect the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    /// The task itself.
    pub task: Task,
    /// SHA-256 of the task's canonical JSON.
    pub digest: String,
    /// The directory that the task's relative paths are resolved against.
    pub base_dir: PathBuf,
    /// SHA-256 of the content of its source, if that is a directory or an archive on this host. If
    /// it changes, the run does not continue with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its verdicts are valid only for the host that made them (`base: "host"`).
    pub host_bound: bool,
}
