//! A run: a plan's trials in one directory.

use std::{collections::BTreeSet, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Arm, Certificate, FlakePolicy, Task, TrialId};

/// The form of a run directory: raised with the version of its events or of its arms' factors, too.
pub const RUN_SCHEMA: u32 = 2;

/// The version of the rules by which an end is attributed to the model, the scaffold or the infrastructure, and by which
/// tests are graded. Raise it with each change of these rules that could change a recorded outcome or verdict.
///
/// 1. `run.json` names no rules.
/// 2. Errors of endpoints are recognised positively (`configs/rejections.toml`), an overflow needs Proctor's own count, and
///    totals and exit statuses of test runs must agree with their results.
pub const RULES: u32 = 2;

/// Of a `run.json` that names no rules.
fn first_rules() -> u32 {
    1
}

/// `run.json`: all that `resume`, `grade` and `report` need, and what a reader wants to know of
/// where the numbers come from. Prices, jobs, paths and the host are recorded, not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RUN_SCHEMA`] when the run was made. A run of another version is refused by name.
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
    /// Trials at once.
    pub jobs: usize,
    /// In the order of the plan, which reports keep.
    pub arms: Vec<Arm>,
    /// In the order of the plan.
    pub tasks: Vec<RunTask>,
    /// The configuration as it was resolved.
    pub config: Value,
    /// The machine that made the run, for readers: operating system and architecture.
    pub host: Value,
    /// SHA-256 of the sandbox agent that this run was made with.
    pub agent: String,
    /// The flake certificate that grading consults, whole, and what it does about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// What grading does about tests that the certificate calls unreliable.
    #[serde(default)]
    pub flaky: FlakePolicy,
    /// Which of the configuration's tasks were asked for. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Of tasks times arms times attempts, those that are no part of the run: an import has the trials of its files, and
    /// makes up no other.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<TrialId>,
    /// What was done to the plan after it was made, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RunChange>,
}

/// `run --tasks GLOB --limit N`: some of the tasks that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The glob of ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<String>,
    /// How many of these were drawn, by the SHA-256 of seed and id: a larger sample holds the smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The seed of the sample.
    pub seed: u64,
    /// Tasks that the configuration names.
    pub of: u64,
}

/// An extension of a run, or a repetition of some of its trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChange {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// The version of Proctor that made the change.
    pub proctor: String,
    /// What was done, for readers.
    pub change: String,
}

/// A task of the plan, whole, as it was when the run was planned: a dataset that changes later
/// changes no run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    /// The task itself.
    pub task: Task,
    /// SHA-256 of the task's canonical JSON.
    pub digest: String,
    /// The folder that the task's relative paths start from.
    pub base_dir: PathBuf,
    /// SHA-256 of the content of its source, where that is a folder or an archive on this host: it may change, and the
    /// run then goes on with no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its verdicts hold for the host that made them (`base: "host"`).
    pub host_bound: bool,
}
