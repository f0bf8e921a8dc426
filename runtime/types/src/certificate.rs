//! A dataset's certificate: what repeated gradings of gold and noop showed about its tests on a
//! host, and what attacks did.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttackCertificate, Integrity, TaskId, TestStatus};

/// The version of the certificate's format. Grading rejects other versions.
pub const CERTIFICATE_SCHEMA: u32 = 1;

/// Written by `proctor tasks validate --certificate FILE` with `--repeat N`, `--attack` or both,
/// used by grading, cited by reports. It is valid for its host and back end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`CERTIFICATE_SCHEMA`] when it was written.
    pub schema_version: u32,
    /// The version of Proctor that wrote it.
    pub proctor: String,
    /// Identifies the grader's code and policies.
    pub grader: String,
    /// Seconds since the Unix epoch.
    pub made: u64,
    /// `native` or `docker`. A certificate says nothing about runs on the other.
    pub backend: String,
    /// The machine: its operating system (`os`) and architecture (`arch`).
    pub host: Value,
    /// How often gold and noop ran on each task.
    pub repeat: u32,
    /// One entry per task that was validated more than once; empty without `--repeat`.
    pub tasks: Vec<CertifiedTask>,
    /// The results of attacks on the tasks, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attacks: Option<AttackCertificate>,
}

/// What repeated runs of gold and noop showed about one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifiedTask {
    /// The task's id.
    pub task: TaskId,
    /// SHA-256 of the task's canonical JSON: a task that has changed since is not certified.
    pub digest: String,
    /// How often gold resolved it.
    pub gold_resolved: u32,
    /// How often an empty patch resolved it: anything but 0 makes the task useless.
    pub noop_resolved: u32,
    /// Gold's verdicts by integrity: if gold's are `unverified`, so will be all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gold_integrity: BTreeMap<Integrity, u32>,
    /// Ids whose status differed between the runs of one arm, with the statuses seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flaky: BTreeMap<String, BTreeMap<TestStatus, u32>>,
    /// Ids that passed in every run of gold except one with half the CPUs and half the memory.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub resource_sensitive: BTreeSet<String>,
    /// Duration of each of gold's test runs, in seconds.
    pub gold_seconds: Vec<f64>,
    /// Gold's slowest tests, in seconds, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<(String, f64)>,
    /// Peak memory of the test process and its children in MiB, as reported by the interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
}

impl Certificate {
    /// Ids of a task that grading cannot rely on; `None` if the present version of the task is not
    /// certified.
    pub fn unreliable(&self, task: &TaskId, digest: &str) -> Option<BTreeSet<String>> {
        let found = self.tasks.iter().find(|one| one.task == *task && one.digest == digest)?;
        Some(found.flaky.keys().chain(&found.resource_sensitive).cloned().collect())
    }
}

/// What grading does about ids that a certificate calls flaky or resource-sensitive. The official
/// policies count them as their benchmark does, whatever this says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlakePolicy {
    /// Run and show them, but ignore their results.
    #[default]
    Quarantine,
    /// Grade a trial twice more if only they failed. The majority counts.
    Vote,
    /// Count them like other tests.
    Count,
}
